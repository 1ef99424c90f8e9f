//! What `list` shows of a directory.

use serde_json::json;

use crate::tools::test_place::Place;

#[tokio::test]
async fn entries_are_sorted_with_kind_and_size_and_ignored_ones_are_marked() {
    let place = Place::new();
    place.put(".gitignore", "*.log\n");
    place.put("b.txt", "12345");
    place.put("a/x", "");
    place.put("out.log", "");
    place.put("node_modules/m", "");
    place.put("tls.pem", "");
    assert_eq!(
        place.ok("list", json!({})).await,
        "file  .gitignore  6 bytes\n\
         dir   a/\n\
         file  b.txt  5 bytes\n\
         dir   node_modules/ (ignored)\n\
         file  out.log  0 bytes (ignored)\n\
         file  tls.pem  0 bytes (closed to tools)\n"
    );
    assert_eq!(
        place.ok("list", json!({"path": "a"})).await,
        "file  x  0 bytes\n"
    );
}

#[tokio::test]
async fn what_is_no_directory_is_told_apart() {
    let place = Place::new();
    place.put("f", "");
    std::fs::create_dir(place.path("empty")).unwrap();
    assert!(
        place
            .fails("list", json!({"path": "f"}))
            .await
            .contains("use `read`")
    );
    assert!(
        place
            .fails("list", json!({"path": "no"}))
            .await
            .contains("does not exist")
    );
    assert!(
        place
            .ok("list", json!({"path": "empty"}))
            .await
            .contains("empty")
    );
}

#[cfg(unix)]
#[tokio::test]
async fn links_show_where_they_lead_and_names_hide_nothing() {
    let place = Place::new();
    std::os::unix::fs::symlink("../outside", place.path("link")).unwrap();
    place.put("a\u{202e}b", "");
    let text = place.ok("list", json!({"path": "."})).await;
    assert!(text.contains("link  link -> ../outside"), "{text}");
    assert!(text.contains("a\\u{202e}b"), "{text}");
}

//! Reading never panics, and what was read is read the same again once written.
#![no_main]

use federate::yaml;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for document in yaml::read(bytes).documents {
        let mut text = String::new();
        yaml::write(&document.value, &mut text);
        let again = yaml::read(text.as_bytes());
        assert!(again.errors.is_empty(), "{:?}\n{text}", again.errors);
        let values: Vec<_> = again.documents.into_iter().map(|document| document.value).collect();
        assert_eq!(values, [document.value], "{text}");
    }
});

//! The plotting library: Apache ECharts, which the build takes from a package and squeezes (`build.rs`); a page unpacks
//! it again. A megabyte as it comes, less than half of that in a page.

/// The library, by gzip and base64.
pub const SQUEEZED: &str = include_str!(concat!(env!("OUT_DIR"), "/echarts.gz.base64"));

#[cfg(test)]
mod tests {
    use std::io::Read;

    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn what_the_package_brings_is_the_library_and_says_whose_it_is() {
        let mut text = String::new();
        let squeezed = BASE64_STANDARD.decode(SQUEEZED).unwrap();
        GzDecoder::new(squeezed.as_slice()).read_to_string(&mut text).unwrap();
        assert!(text.contains("Licensed to the Apache Software Foundation") && text.contains("echarts"));
        assert!(!text.contains("</script"), "it can stand in a page as it is");
        assert!(SQUEEZED.len() < 1_000_000, "{} bytes in each page", SQUEEZED.len());
    }
}

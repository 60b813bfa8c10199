//! Helpers of the end-to-end suites.

// For tests that draw text: fontconfig keeps what it has read until the end, which a leak checker would blame on us.

extern "C" const char *__lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
    return "leak:libfontconfig.so";
}

/* keep_libraries - linked into the tests of a sanitizer build: no library is ever unloaded, so that LeakSanitizer can
 * name what a driver allocated and sees what its globals still point at. */
int dlclose(void *handle);
int dlclose(void *handle)
{
    (void)handle;
    return 0;
}

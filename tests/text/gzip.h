/* tests/text/gzip.h — a gzip file's contents; NULL when there is no such file, any other failure ends the test. */
#pragma once

#include <gio/gio.h>

GBytes *read_gzip (const char *path);

/* tinyloop.h — the whole public API. */
#pragma once

#include "tl-error.h"

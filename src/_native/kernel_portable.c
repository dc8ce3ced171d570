/* The kernel for any machine: the same code on plain C lanes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "approximations.h"
#include "model.h"
#include "lanes_plain.h"

#define KERNEL kernel_portable
#define KERNEL_NAME "portable"

static int supported(void) { return 1; }

#include "kernel.h"

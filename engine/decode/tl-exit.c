/* decode/tl-exit.c — early exit: no criterion yet, every row takes all its loops. */
#include "decode/tl-exit.h"

struct _TlExit
{
  TlPass *pass;
  guint first, n;
};

TlExit *
tl_exit_new (const TlExitRule *rule, TlPass *pass, guint first, guint n)
{
  TlExit *exit = g_new (TlExit, 1);
  *exit = (TlExit) { pass, first, n };
  return exit;
}

guint
tl_exit_loops_to_probe (const TlExit *exit)
{
  return G_MAXUINT;
}

gboolean
tl_exit_probe (TlExit *exit, GCancellable *cancellable, GError **error)
{
  return TRUE;
}

void
tl_exit_end (TlExit *exit, guint *depths)
{
  for (guint i = 0; depths && i < exit->n; i++)
    depths[i] = tl_pass_row_depth (exit->pass, exit->first + i);
}

void
tl_exit_free (TlExit *exit)
{
  g_free (exit);
}

/* gst/tl-deadline.c — a line through the measured times of passes, kept up to date by normalised least mean squares.
 *
 * One step of the method moves fixed and per_loop by half of the error, shared in the ratio 1 : loops; so passes of
 * different depths tell the two apart, and a machine that becomes slower or faster is followed within a few tokens.
 */
#include "tl-deadline.h"

#define STEP 0.5

void
tl_deadline_note (TlDeadline *self, guint loops, GstClockTime took)
{
  if (loops == 0)
    return;
  if (self->per_loop == 0) {
    self->per_loop = MAX ((double) took / loops, 1);
    return;
  }
  double error = (double) took - (self->fixed + self->per_loop * loops);
  double share = STEP * error / (1.0 + (double) loops * loops);

  self->fixed = MAX (self->fixed + share, 0);
  self->per_loop = MAX (self->per_loop + share * loops, 1);
}

guint
tl_deadline_loops (const TlDeadline *self, GstClockTimeDiff left, guint min, guint max)
{
  if (self->per_loop == 0)
    return max;
  double loops = ((double) left - self->fixed) / self->per_loop;

  return loops >= max ? max : loops <= min ? min : (guint) loops;
}

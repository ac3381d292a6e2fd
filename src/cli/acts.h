/* The commands that ask something of a run: start, send, wait, cancel, redrive. What they give and
 * print is as commands.h says. */
#ifndef CLI_ACTS_H
#define CLI_ACTS_H

#include "cli/commands.h"

pawl_code act_start(pawl *p, const arguments *a);
pawl_code act_send(pawl *p, const arguments *a);
pawl_code act_wait(pawl *p, const arguments *a);
pawl_code act_cancel(pawl *p, const arguments *a);
pawl_code act_redrive(pawl *p, const arguments *a);

#endif

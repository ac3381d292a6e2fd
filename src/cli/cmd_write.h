/* The commands that change runs: start, send, wait, cancel, redrive, hold, release, rm. As
 * commands.h says, each prints to stdout and gives the code of the call that ended it. */
#ifndef CLI_CMD_WRITE_H
#define CLI_CMD_WRITE_H

#include "cli/commands.h"

pawl_code act_start(pawl *p, const arguments *a);
pawl_code act_send(pawl *p, const arguments *a);
pawl_code act_wait(pawl *p, const arguments *a);
pawl_code act_cancel(pawl *p, const arguments *a);
pawl_code act_redrive(pawl *p, const arguments *a);
pawl_code act_hold(pawl *p, const arguments *a);
pawl_code act_release(pawl *p, const arguments *a);
pawl_code act_rm(pawl *p, const arguments *a);

#endif

#ifndef SWITCHBENCH_H
#define SWITCHBENCH_H

void sb_cfiber(long n);
void sb_six(long n);
void sb_three(long n);
extern const int sb_has_swapcontext; /* or it does nothing */
void sb_swapcontext(long n);
void sb_boost(long n);

#endif

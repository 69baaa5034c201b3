#ifndef SWITCHBENCH_H
#define SWITCHBENCH_H

void sb_cfiber(long n);
void sb_six(long n);
void sb_three(long n);
void sb_swapcontext(long n);
void sb_boost(long n);

#endif

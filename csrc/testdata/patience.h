/*
 * patience.h - after how many seconds a C test that has not ended is taken to hang.
 *
 * With chaos a thread gives up its core again and again. On a busy machine each time costs a
 * time slice of somebody else.
 */
#ifndef PATIENCE_H
#define PATIENCE_H

#ifdef CFIBER_CHAOS
#define PATIENCE 280
#else
#define PATIENCE 110
#endif

#endif /* PATIENCE_H */

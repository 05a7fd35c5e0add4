/* The transfer between two ledgers as workflows/transfer.go runs it, every interleaving.

   A step is a key with one of four fates. An attempt of a step is a message that some worker carries out at any later
   time: also after the workflow has given the step up, has been terminated and started again, or has ended. An attempt is
   one database transaction, so one atomic block. Its report may be lost.

   Beside the steps it has: cancellation at any point; an end of the run at any point (terminated, reset, its history
   deleted) and a new start with the same ID; settling that runs out of attempts, parks, and is decided by a person, who
   says retry or compensate; a refund that is blocked by a ceiling until somebody raises it.

   Each -D below takes one part of the design out; the checker must then find an error:
     NOKEY      no key: each attempt moves money
     NOSEAL     resolve looks, and does not seal
     NORESOLVE  a step whose attempts ran out is taken for failed
     NOWHY      a run ends as cancelled when it was, not when the seal says so: a later run ends otherwise than the first
     EARLYBACK  a cancelled transfer that has not tried its deposit in this run skips resolving it
     DECREE     a person's "compensate" refunds at once, without resolving the deposit
     FORGETFUL  a blocked refund is recorded as refused and so for good */

#ifndef ATTEMPTS
#define ATTEMPTS 2      /* of a forward step in a run */
#endif
#ifndef RUNS
#define RUNS 2          /* of the workflow */
#endif
#ifndef PARKINGS
#define PARKINGS 1      /* of a run */
#endif

mtype:fate = { none, applied, refused, sealed };
mtype:task = { W, D, R, SWx, SWc, SDx, SDc };   /* S: seal withdraw or deposit, because of x exhaustion or c cancellation */
mtype:state = { running, completed, rejected, failed, compensated, cancelled };

mtype:fate w = none, d = none, r = none;        /* the keys */
bool wCancelled = false, dCancelled = false;    /* why they were sealed */
byte a0, a, transitS = 0;                       /* source: what A had, what it has, transit */
byte b = 0, transitD = 1;                       /* destination: transit begins with what it may give */
bool open = false;                              /* the destination account takes money */
bool blocked = false;                           /* the source account can't take money back now */
mtype:state first = running;                    /* the first end that anybody was told */

chan tasks = [8] of { mtype:task };
bool reportedW, reportedD, reportedR;

inline report(flag) { if :: flag = true :: skip fi }

/* how a run tells a cancelled end: by what is recorded */
#ifdef NOWHY
#define BY_CANCEL(recorded) cancel
#else
#define BY_CANCEL(recorded) recorded
#endif

#ifdef NOSEAL
#define SEAL(key, flag, value) skip
#else
#define SEAL(key, flag, value) if :: key == none -> key = sealed; flag = value :: else -> skip fi
#endif

inline transact(t) {
  if
  :: t == W ->
#ifdef NOKEY
     if :: a > 0 -> a--; transitS++; w = applied :: else -> w = refused fi;
#else
     if
     :: w == none && a > 0 -> w = applied; a--; transitS++
     :: w == none && a == 0 -> w = refused
     :: else -> skip
     fi;
#endif
     report(reportedW)
  :: t == D ->
#ifdef NOKEY
     if :: open -> d = applied; b++; if :: transitD > 0 -> transitD-- :: else -> skip fi :: else -> d = refused fi;
#else
     if
     :: d == none && open -> d = applied; transitD--; b++
     :: d == none && !open -> d = refused
     :: else -> skip
     fi;
#endif
     report(reportedD)
  :: t == R ->
     if
     :: r == none && !blocked -> r = applied; transitS--; a++; report(reportedR)
#ifdef FORGETFUL
     :: r == none && blocked -> r = refused; report(reportedR)
#else
     :: r == none && blocked -> skip            /* an error: nothing recorded, nothing to report */
#endif
     :: else -> report(reportedR)
     fi
  :: t == SWx -> SEAL(w, wCancelled, false); report(reportedW)
  :: t == SWc -> SEAL(w, wCancelled, true);  report(reportedW)
  :: t == SDx -> SEAL(d, dCancelled, false); report(reportedD)
  :: t == SDc -> SEAL(d, dCancelled, true);  report(reportedD)
  fi
}

active proctype worker() {                      /* tasks in any order; each is atomic, so one process has every order */
end:
  do
  :: atomic { tasks??[W]   -> tasks??W;   transact(W) }
  :: atomic { tasks??[D]   -> tasks??D;   transact(D) }
  :: atomic { tasks??[R]   -> tasks??R;   transact(R) }
  :: atomic { tasks??[SWx] -> tasks??SWx; transact(SWx) }
  :: atomic { tasks??[SWc] -> tasks??SWc; transact(SWc) }
  :: atomic { tasks??[SDx] -> tasks??SDx; transact(SDx) }
  :: atomic { tasks??[SDc] -> tasks??SDc; transact(SDc) }
  od
}

active proctype operator() {                    /* raises the ceiling, some time */
end:
  atomic { blocked -> blocked = false }
}

/* forward: attempts until one reports, or they run out, or the transfer is cancelled */
#define FORWARD(t, flag, got)                                                   \
  flag = false; got = false; n = 0;                                             \
  do                                                                            \
  :: atomic { cancel || takeBack -> break }                                     \
  :: atomic { n < ATTEMPTS && len(tasks) < 6 -> tasks!t; n++ }                  \
  :: atomic { n > 0 && flag -> got = true; break }                              \
  :: n == ATTEMPTS -> break                                                     \
  :: atomic { !cancel -> cancel = true }                                        \
  od

/* settle: attempts until one reports; when they run out it parks, and a person says retry or compensate */
#define SETTLE(t, flag)                                                         \
  flag = false;                                                                 \
  do                                                                            \
  :: atomic { !flag && len(tasks) < 4 -> tasks!t }                              \
  :: atomic { flag -> break }                                                   \
  :: atomic { parkings < PARKINGS -> parkings++; if :: skip :: takeBack = true fi } \
  od

#define MAYBE_AGAIN if :: atomic { runs < RUNS -> goto again } :: skip fi

active proctype transfer() {
  byte n, runs = 0, parkings; bool got, cancel, takeBack, triedDeposit; mtype:state state;
  atomic {
    if :: open = true :: open = false fi;
    if :: a0 = 0 :: a0 = 1 fi;
    if :: blocked = true :: blocked = false fi;
    a = a0
  }
again:
  atomic { runs++; parkings = 0; cancel = false; takeBack = false; triedDeposit = false; state = running }

  FORWARD(W, reportedW, got);
  MAYBE_AGAIN;
#ifdef NORESOLVE
  if :: atomic { !got && w != applied -> state = (cancel -> cancelled : failed); goto ended } :: else -> skip fi;
#else
  if
  :: atomic { !got && cancel -> skip } SETTLE(SWc, reportedW)
  :: atomic { !got && !cancel -> skip } SETTLE(SWx, reportedW)
  :: atomic { got -> skip }
  fi;
#endif
  MAYBE_AGAIN;
  atomic {
    if
    :: w == applied -> skip
    :: w == refused -> state = rejected; goto ended
    :: w == sealed && BY_CANCEL(wCancelled) -> state = cancelled; goto ended
    :: w == sealed && !BY_CANCEL(wCancelled) -> state = failed; goto ended
#ifdef NOSEAL
    :: w == none -> state = failed; goto ended
#endif
    fi
  }

  if :: atomic { !cancel && !takeBack -> triedDeposit = true } :: else -> skip fi;
  FORWARD(D, reportedD, got);
  MAYBE_AGAIN;
#ifdef DECREE
  if :: atomic { takeBack -> goto back } :: else -> skip fi;
#endif
#ifdef EARLYBACK
  if :: atomic { cancel && !triedDeposit -> goto back } :: else -> skip fi;
#endif
#ifdef NORESOLVE
  if :: atomic { !got -> goto back } :: else -> skip fi;
#else
  if
  :: atomic { !got && cancel -> skip } SETTLE(SDc, reportedD)
  :: atomic { !got && !cancel -> skip } SETTLE(SDx, reportedD)
  :: atomic { got -> skip }
  fi;
#endif
  MAYBE_AGAIN;
  if
  :: atomic { d == applied -> state = completed; goto ended }
  :: atomic { d == refused || d == sealed -> skip }
#ifdef NOSEAL
  :: atomic { d == none -> skip }
#endif
  fi;
#if defined(DECREE) || defined(EARLYBACK) || defined(NORESOLVE)
back:
#endif
  MAYBE_AGAIN;
  SETTLE(R, reportedR);
#ifdef FORGETFUL
  assert(r == applied);
#endif
  state = (BY_CANCEL(dCancelled) -> cancelled : compensated);

ended:                                          /* the run told its end; it must be the same for every run */
  atomic {
    assert(first == running || first == state);
    first = state
  }
  MAYBE_AGAIN;
  (len(tasks) == 0);                            /* every late attempt has run */
  assert(!(d == applied && r == applied));
  assert(a + transitS == a0 && b + transitD == 1);
  if
  :: state == completed -> assert(b == 1 && a + 1 == a0 && transitS == 1)
  :: else -> assert(b == 0 && a == a0 && transitS == 0)
  fi
}

/*
 * Who may ask for calls at all: two arms of one person, each with its page's
 * registration and a lease; the documents' pointers and a kill switch.
 *
 * Arm a's page is at node a. Either both arms are of one browser session, in two
 * tabs, or they are of two sessions that show one document, which only a fault could
 * bring about. Each atomic step is one transaction, as it is in the ledger. Any step
 * can be asked for at any time and by anybody, again after a lost answer too, and be
 * the last that a node does.
 *
 * -DMUTANT=n puts one fault in. README.md lists them; each must be found.
 */
#include "moves.pml"

#ifndef MUTANT
#define MUTANT 0
#endif

/* The ledger. A registration and a lease have their arm's number. */
byte arm_is[2], registration_is[2], document_is[2], lease_is[2], kill_is;
byte points[2] = 9, predecessor[2] = 9;

/* The clock, and nodes that are dead or are taken for dead. */
bit arm_time[2], lease_time[2], gone[2];
bit one_browser;
byte doc[2]; /* the document of an arm's page */

/* What really happened. */
byte opened[2];

#define live(a) (arm_is[a] == arm_active || arm_is[a] == arm_consumed)
#define unretired(r) (registration_is[r] == registration_pending || registration_is[r] == registration_published)
#define killed (kill_is == kill_on)
#define consumed(a) (arm_is[a] == arm_consumed && !arm_time[a] && !killed)
#define pointed_to(r) (document_is[doc[r]] == document_pointed && points[doc[r]] == r)

#define left_over(a) (gone[a] && arm_is[a] == arm_consumed && registration_is[a] != registration_retired)

/* A property that doesn't hold is told by its name. */
#define broken(property) c_code { printf("broken " #property "\n"); }; assert(false)

inline retire_under(under) {
	if
	:: lease_is[under] == lease_active && MUTANT != 21 -> move_lease_revoked(lease_is[under])
	:: else
	fi;
	move_registration_retired(registration_is[under])
}

inline retire(reg) {
	if
	:: pointed_to(reg) -> move_document_cleared(document_is[doc[reg]])
	:: else
	fi;
	if
	:: predecessor[reg] != 9 && unretired(predecessor[reg]) -> retire_under(predecessor[reg])
	:: else
	fi;
	retire_under(reg)
}

/* end_arm ends an arm that isn't over, with everything under it. */
inline end_arm(arm, expires) {
	if
	:: arm_is[arm] == arm_consumed && unretired(arm) && MUTANT != 27 -> retire(arm)
	:: else
	fi;
	if
	:: can_arm_revoked(arm_is[arm]) && expires -> move_arm_expired(arm_is[arm])
	:: can_arm_revoked(arm_is[arm]) && !expires -> move_arm_revoked(arm_is[arm])
	:: else
	fi
}

/* A page's way to a published registration; each step where the ledger takes it. */
proctype Tab(byte a) {
	do
	:: d_step { can_arm_granted(arm_is[a]) && (!killed || MUTANT == 28) ->
		if
		:: one_browser && arm_is[1 - a] == arm_recent_auth_active -> end_arm(1 - a, 0)
		:: else
		fi;
		move_arm_granted(arm_is[a]) }
	:: d_step { arm_is[a] == arm_recent_auth_active && !arm_time[a] && !killed ->
		if
		:: one_browser && MUTANT != 26 -> end_arm(1 - a, 0)
		:: else
		fi;
		move_arm_finalized(arm_is[a]) }
	:: d_step { arm_is[a] == arm_active && !arm_time[a] && !killed -> move_arm_consumed(arm_is[a]); opened[a]++ }
	:: d_step { MUTANT == 23 && consumed(a) && opened[a] == 1 -> opened[a]++ } /* its state isn't asked */
	:: d_step { consumed(a) && registration_is[a] == registration_absent && !gone[a] -> move_registration_registered(registration_is[a]) }
	:: d_step { consumed(a) && registration_is[a] == registration_pending && !pointed_to(a) && !gone[a] ->
		if
		:: document_is[doc[a]] == document_pointed && MUTANT != 22 -> retire_under(points[doc[a]])
		:: else
		fi;
		if
		:: document_is[doc[a]] != document_absent -> predecessor[a] = points[doc[a]]
		:: else
		fi;
		points[doc[a]] = a;
		move_document_pointed(document_is[doc[a]]) }
	:: d_step { consumed(a) && registration_is[a] == registration_pending && (pointed_to(a) || MUTANT == 24) && !gone[a] ->
		move_registration_published(registration_is[a]) }
	od
}

/* The caller: a lease over what a document points to. */
active proctype Caller() {
	do
	:: d_step { pointed_to(0) && (registration_is[0] == registration_published || MUTANT == 25) && (consumed(0) || MUTANT == 29 && arm_is[0] == arm_consumed) && lease_is[0] == lease_absent ->
		move_lease_issued(lease_is[0]);
		if
		:: arm_time[0] -> broken(nothing_outlives_its_authority)
		:: else
		fi }
	:: d_step { pointed_to(1) && registration_is[1] == registration_published && consumed(1) && lease_is[1] == lease_absent -> move_lease_issued(lease_is[1]) }
	:: d_step { lease_is[0] == lease_active -> move_lease_revoked(lease_is[0]) }
	:: d_step { lease_is[1] == lease_active -> move_lease_revoked(lease_is[1]) }
	:: break
	od
}

/* What time does, and the person's own word, for arm a; as much of it as comes. */
proctype World(byte a) {
	do
	:: !arm_time[a] && can_arm_revoked(arm_is[a]) -> arm_time[a] = 1
	:: !lease_time[a] && lease_is[a] == lease_active -> lease_time[a] = 1
	:: !gone[a] && arm_is[a] == arm_consumed -> gone[a] = 1
	:: d_step { can_arm_revoked(arm_is[a]) -> end_arm(a, 0) } /* revoked, signed out, disconnected, timed out */
	:: break
	od
}

/* Repair by a node that lives, for arm a. */
proctype Repair(byte a) {
	do
	:: d_step { arm_time[a] && can_arm_expired(arm_is[a]) -> end_arm(a, 1) }
	:: d_step { lease_time[a] && lease_is[a] == lease_active -> move_lease_expired(lease_is[a]) }
	:: d_step { gone[a] && unretired(a) && arm_is[a] == arm_consumed && MUTANT != 30 -> end_arm(a, 0) }
	:: d_step { gone[a] && registration_is[a] == registration_absent && arm_is[a] == arm_consumed -> end_arm(a, 0) } /* no catalog came */
	:: d_step { consumed(a) && registration_is[a] == registration_pending && pointed_to(a) -> move_registration_published(registration_is[a]) }
	:: d_step { MUTANT == 27 && !can_arm_revoked(arm_is[a]) && unretired(a) -> retire(a) } /* in a transaction of its own */
	od
}

active proctype Operator() {
	do
	:: d_step { kill_is == kill_absent -> move_kill_set(kill_is); end_arm(0, 0); end_arm(1, 0) }
	:: d_step { kill_is == kill_on -> move_kill_lifted(kill_is) }
	od
}

/* What holds in every state. */
active proctype Always() {
	do
	:: lease_is[0] == lease_active && !(arm_is[0] == arm_consumed && registration_is[0] == registration_published) -> broken(lease_under_arm)
	:: lease_is[1] == lease_active && !(arm_is[1] == arm_consumed && registration_is[1] == registration_published) -> broken(lease_under_arm)
	:: registration_is[0] == registration_published && !pointed_to(0) -> broken(published_is_pointed_to)
	:: registration_is[1] == registration_published && !pointed_to(1) -> broken(published_is_pointed_to)
	:: document_is[0] == document_pointed && !unretired(points[0]) -> broken(pointer_leads_to_no_end)
	:: document_is[1] == document_pointed && !unretired(points[1]) -> broken(pointer_leads_to_no_end)
	:: !one_browser && registration_is[0] == registration_published && registration_is[1] == registration_published -> broken(one_active_registration)
	:: unretired(0) && arm_is[0] != arm_consumed -> broken(registration_under_arm)
	:: unretired(1) && arm_is[1] != arm_consumed -> broken(registration_under_arm)
	:: one_browser && live(0) && live(1) -> broken(newest_tab_wins)
	:: killed && (can_arm_revoked(arm_is[0]) || can_arm_revoked(arm_is[1])) -> broken(nothing_lives_when_killed)
	:: opened[0] > 1 || opened[1] > 1 -> broken(opened_once)
	/* Where nothing moves any more nobody's channel is left over. */
	:: timeout ->
		if
		:: left_over(0) || left_over(1) -> broken(repaired)
		:: else -> break
		fi
	od
}

init {
	atomic {
		if
		:: one_browser = 0
		:: one_browser = 1; doc[1] = 1
		fi;
		run Tab(0); run Tab(1); run World(0); run World(1); run Repair(0); run Repair(1)
	}
}

/*
 * One call of attended control: its fence, its claim, its frame and its outcome.
 *
 * Node 0 holds the page's socket. The request is delivered at node 0 or 1, and once
 * more at the other one, or at node 0 started anew (which is node 2: a name that is
 * used again owns nothing). Each atomic step that touches the ledger is one transaction, as it
 * is there; a node can die between any two of its steps, and can be taken for dead
 * while it only stalls. Commits can succeed and their answers be lost.
 *
 * The page does what it says, once for each control.call that it gets: that it gets
 * no second one is the authority's to see to. A page's script may answer a
 * confirmation with the digest of something else.
 *
 * -DMUTANT=n puts one fault in. README.md lists them; each must be found.
 */
#include "moves.pml"

#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef MUTATION
#define MUTATION 1
#endif
#ifndef EVENTS
#define EVENTS 3
#endif

/* Effects, and a page's other words. */
#define NONE 0
#define COMMITTED 1
#define UNKNOWN 2

/* References: each delivery has one, the channel's claim another. */
#define CHANNEL_CLAIM 4

/* Frames. Those of the page carry one value. */
#define CONFIRMATION_REQUEST 1
#define CONTROL_CALL 2
#define CONTROL_CANCEL 3
#define CONFIRM 4
#define SUCCEEDED 5
#define FAILED 6
#define NOT_STARTED 7
#define CANCELLED 8

/* Work that an admitting node hands to the page's node, with its claim. */
#define ASK 1
#define GO 2

/* The ledger. */
byte arm_is, registration_is, document_is, lease_is, call_is, kill_is;
bit mutation;
byte effect;
byte admission, claim, holder; /* references, and the node that answers for the call */
bit confirmed;
bit late; /* while unknown: a result may still come */

/* The clock, the caller's grant (another authority's), and the nodes. */
bit deadline, lease_time, arm_time, grant = 1;
bool up[3], gone[3]; /* gone: its beat is older than a node may be silent */
bit open; /* the socket */
bit first, again; /* where the request is delivered first, and whether it was again */
byte events = EVENTS;

/* What really happened. */
byte claims, sent, executed;
bit yes, page_done;

chan work = [2] of { byte, byte };
chan to_page = [2] of { byte };
chan to_authority = [3] of { byte, byte };

#define active_call (call_is == call_pending_confirmation || call_is == call_dispatched || call_is == call_cancelling)
#define over (call_is == call_succeeded || call_is == call_failed || call_is == call_cancelled || call_is == call_denied || call_is == call_unknown_reaped)
#define judged (call_is == call_absent || call_is == call_pending_confirmation) /* or to be */
#define authority (arm_is == arm_consumed && registration_is == registration_published && lease_is == lease_active && kill_is != kill_on)

/* A property that doesn't hold is told by its name. */
#define broken(property) c_code { printf("broken " #property "\n"); }; assert(false)

/* stop is what the end of what a call stands under makes of it. */
inline stop(socket) {
	if
	:: call_is == call_pending_confirmation && MUTANT != 7 -> move_call_cancelled(call_is); effect = NONE
	:: call_is == call_dispatched && socket ->
		if
		:: MUTANT == 14 && mutation -> move_call_succeeded(call_is); effect = COMMITTED
		:: else -> move_call_stopping(call_is)
		fi
	:: (call_is == call_dispatched || call_is == call_cancelling) && !socket -> lose(0)
	:: else
	fi
}

/* lose: nothing tells what became of a call that was sent. */
inline lose(window) {
	move_call_lost(call_is);
	late = window;
	effect = (MUTANT == 4 -> NONE : UNKNOWN)
}

inline end_lease(expires, socket) {
	if
	:: lease_is == lease_active ->
		stop(socket);
		if
		:: expires -> move_lease_expired(lease_is)
		:: else -> move_lease_revoked(lease_is)
		fi
	:: else
	fi
}

/* end_arm ends everything under it, in one transaction. */
inline end_arm(expires) {
	if
	:: arm_is == arm_consumed ->
		if
		:: document_is == document_pointed -> move_document_cleared(document_is)
		:: else
		fi;
		end_lease(0, 0);
		stop(0); /* what a lease that is over left running */
		move_registration_retired(registration_is);
		if
		:: expires -> move_arm_expired(arm_is)
		:: else -> move_arm_revoked(arm_is)
		fi
	:: else
	fi
}

/* claimed is the moment of the claim, whoever makes it. */
inline claimed(reference, node) {
	claim = reference;
	claims++;
	holder = node;
	effect = (mutation -> UNKNOWN : NONE);
	if
	:: !(authority && grant) -> broken(no_claim_after_revocation)
	:: authority && grant && mutation && !yes -> broken(confirmed_before_sent)
	:: else
	fi
}

/* withhold says that a claimed call wasn't sent. */
inline withhold(own) {
	if
	:: claim == own && can_call_withheld(call_is) -> move_call_withheld(call_is); effect = NONE
	:: else
	fi
}

inline drop() {
	if
	:: nempty(to_authority) -> to_authority?_,_
	:: empty(to_authority)
	fi
}

/* Closing drops what the page said and nobody read. */
inline close() {
	open = 0;
	drop(); drop(); drop()
}

/* say is a frame of the page's: dropped where the socket is closed. */
inline say(frame, value) {
	if
	:: open && nfull(to_authority) -> to_authority!frame,value
	:: !open || full(to_authority)
	fi
}

/* A delivery of the request at a node: T1, and what a lost answer leads to. */
proctype Delivery(byte node) provided (up[node]) {
	bit fresh;
	d_step {
		if
		:: call_is == call_absent && authority && !lease_time && !arm_time ->
			admission = node + 1;
			holder = node;
			if
			:: mutation -> move_call_admitted(call_is)
			:: else -> move_call_dispatched(call_is); claimed(node + 1, node)
			fi;
			fresh = 1
		:: MUTANT == 3 && claim && gone[holder] -> fresh = 1
		:: MUTANT == 8 && claim -> fresh = 1
		:: else
		fi
	};
	if
	:: d_step { fresh -> fresh = 0;
		if
		:: mutation && !claim -> work!ASK,0
		:: else -> work!GO,node + 1
		fi }
	:: d_step { 1 -> fresh = 0; /* its answer was lost: Retire, by its own reference */
		if
		:: admission == node + 1 && can_call_retired(call_is) -> move_call_retired(call_is); effect = NONE
		:: admission == node + 1 && claim == node + 1 && can_call_withheld(call_is) -> withhold(node + 1)
		:: MUTANT == 9 && can_call_withheld(call_is) -> move_call_withheld(call_is); effect = NONE
		:: else
		fi }
	fi
}

/* The channel at the page's node. own is a claim that it holds and didn't send. */
active proctype Channel() provided (up[0]) {
	byte own, value;
	bit valid, went, told;
	do
	:: d_step { nempty(work) ->
		if
		:: work?[ASK,value] ->
			work?ASK,value;
			if
			:: open -> to_page!CONFIRMATION_REQUEST
			:: !open
			fi
		:: work?[GO,value] -> work?GO,own
		fi }
	:: d_step { own == 0 && open && to_authority?[CONFIRM,value] -> /* T2 */
		to_authority?CONFIRM,value;
		if
		:: MUTANT == 1 -> sent++ /* its frame, before the claim */
		:: else
		fi;
		if
		:: value != 1 && MUTANT != 5
		:: else ->
			if
			:: MUTANT == 2 && call_is == call_dispatched -> claimed(CHANNEL_CLAIM, 0); own = CHANNEL_CLAIM
			:: call_is == call_pending_confirmation ->
				if
				:: deadline -> move_call_lapsed(call_is); effect = NONE
				:: !deadline && lease_time -> end_lease(1, 1)
				:: !deadline && !lease_time && arm_time -> end_arm(1)
				:: !deadline && !lease_time && !arm_time && !(authority && grant) && MUTANT != 6 ->
					move_call_cancelled(call_is); effect = NONE
				:: else -> move_call_confirmed(call_is); confirmed = 1; claimed(CHANNEL_CLAIM, 0); own = CHANNEL_CLAIM
				fi
			:: else
			fi
		fi;
		value = 0 }
	/* Revalidation said yes, and then the frame. */
	:: own && !valid && open -> valid = 1
	:: d_step { own && valid && open && nfull(to_page) -> to_page!CONTROL_CALL; sent++; went = 1; own = 0; valid = 0 }
	/* It said no, the call is being stopped, or the claim's answer was lost: withheld. */
	:: d_step { own -> withhold(own); own = (MUTANT == 12 && call_is != call_absent && !went -> own : 0); valid = 0 }
	/* What the page says. */
	:: d_step { open && to_authority?[SUCCEEDED,value] ->
		to_authority?SUCCEEDED,value;
		if
		:: can_call_succeeded(call_is) && (call_is != call_unknown || late || MUTANT == 10) ->
			if
			:: call_is == call_unknown && !late -> broken(none_after_its_window)
			:: else
			fi;
			move_call_succeeded(call_is); effect = (mutation -> COMMITTED : NONE)
		:: else
		fi }
	:: d_step { open && to_authority?[FAILED,value] ->
		to_authority?FAILED,value;
		if
		:: can_call_failed(call_is) && (call_is != call_unknown || late) -> move_call_failed(call_is); effect = (mutation -> UNKNOWN : NONE)
		:: else
		fi }
	:: d_step { open && to_authority?[NOT_STARTED,value] ->
		to_authority?NOT_STARTED,value;
		if
		:: can_call_failed(call_is) && (call_is != call_unknown || late) -> move_call_failed(call_is); effect = NONE
		:: else
		fi }
	:: d_step { open && to_authority?[CANCELLED,value] ->
		to_authority?CANCELLED,value;
		if
		:: call_is == call_pending_confirmation && value == NONE -> move_call_denied(call_is); effect = NONE
		:: call_is == call_cancelling || call_is == call_unknown && late ->
			if
			:: value == NONE -> move_call_stopped(call_is); effect = NONE
			:: value == COMMITTED -> move_call_succeeded(call_is); effect = (mutation -> COMMITTED : NONE)
			:: value == UNKNOWN && can_call_lost(call_is) -> lose(1)
			:: else
			fi
		:: else
		fi;
		value = 0 }
	/* Telling the page to stop: never before its frame. */
	:: d_step { call_is == call_cancelling && !told && open && (went || MUTANT == 11) && nfull(to_page) -> to_page!CONTROL_CANCEL; told = 1 }
	:: d_step { told && can_call_lost(call_is) -> lose(1) } /* two seconds without an answer */
	/* The deadline. */
	:: d_step { deadline && call_is == call_pending_confirmation -> move_call_lapsed(call_is); effect = NONE }
	:: d_step { deadline && call_is == call_dispatched -> stop(1) }
	/* The socket is gone, or its arm: the channel ends with all under it. */
	:: d_step { !open && arm_is == arm_consumed -> end_arm(arm_time) }
	:: d_step { open && arm_is != arm_consumed -> close() }
	od
}

/* The page and its person. */
active proctype Page() {
	bit asked, got, did, stop_asked;
	do
	:: d_step { nempty(to_page) ->
		if
		:: to_page?[CONFIRMATION_REQUEST] -> to_page?CONFIRMATION_REQUEST; asked = 1
		:: to_page?[CONTROL_CALL] -> to_page?CONTROL_CALL; got = 1
		:: to_page?[CONTROL_CANCEL] -> to_page?CONTROL_CANCEL; stop_asked = 1
		fi }
	:: d_step { asked -> asked = 0; yes = 1; say(CONFIRM, 1) }
	:: d_step { asked -> asked = 0; yes = 1; say(CONFIRM, 1); say(CONFIRM, 1) } /* twice */
	:: d_step { asked -> asked = 0; say(CONFIRM, 0) } /* a yes to something else */
	:: d_step { asked -> asked = 0; say(CANCELLED, NONE) } /* Deny */
	:: d_step { got -> got = 0; did = 1; executed++ }
	:: d_step { got -> got = 0; say(NOT_STARTED, 0) }
	:: d_step { did -> did = 0; page_done = 1; say(SUCCEEDED, 0) }
	:: d_step { did -> did = 0; say(FAILED, 0) }
	:: d_step { stop_asked && !executed -> stop_asked = 0; got = 0; say(CANCELLED, NONE) }
	:: d_step { stop_asked && executed -> stop_asked = 0; page_done = 1; say(CANCELLED, COMMITTED) }
	:: d_step { stop_asked -> stop_asked = 0; say(CANCELLED, UNKNOWN) }
	od
}

/* What time does, and what a dead node left: any living node's repair. */
active proctype Repair() {
	do
	:: d_step { call_is == call_pending_confirmation && gone[holder] -> move_call_retired(call_is); effect = NONE }
	:: d_step { can_call_lost(call_is) && gone[holder] ->
		if
		:: MUTANT == 13 -> move_call_withheld(call_is); effect = NONE
		:: else -> lose(0)
		fi }
	:: d_step { arm_is == arm_consumed && gone[0] -> end_arm(0) }
	:: d_step { arm_is == arm_consumed && arm_time -> end_arm(1) }
	:: d_step { lease_is == lease_active && lease_time -> end_lease(1, 1) }
	:: d_step { call_is == call_pending_confirmation && deadline -> move_call_lapsed(call_is); effect = NONE }
	:: d_step { can_call_lost(call_is) && deadline -> lose(1) } /* ten seconds over it */
	:: d_step { call_is == call_unknown && !late -> move_call_reaped(call_is); effect = (mutation -> UNKNOWN : NONE) }
	od
}

/*
 * What happens around it, at any time: its deadline, and at most EVENTS of the rest,
 * in any choice and order. What can make no difference any more doesn't happen.
 */
active proctype World() {
	do
	:: deadline == 0 && call_is != call_absent && !over && call_is != call_unknown -> deadline = 1
	:: call_is == call_unknown && late -> late = 0
	:: atomic { events && !over && !again && up[1 - first] -> events--; again = 1; run Delivery(1 - first) }
	:: atomic { events && !over && !again && !up[0] -> events--; again = 1; up[2] = 1; run Delivery(2) } /* node 0 came back */
	:: events && lease_time == 0 && judged && lease_is == lease_active -> events--; lease_time = 1
	:: events && arm_time == 0 && judged && arm_is == arm_consumed -> events--; arm_time = 1
	:: events && grant == 1 && call_is == call_pending_confirmation -> events--; grant = 0
	:: d_step { events && active_call && call_is != call_cancelling -> events--; stop(1) } /* the caller cancels */
	:: d_step { events && !over && lease_is == lease_active -> events--; end_lease(0, 1) } /* revoked by its caller or person */
	:: d_step { events && !over && arm_is == arm_consumed -> events--; end_arm(0) } /* revoked, signed out, or killed with its person */
	:: d_step { events && !over && kill_is == kill_absent -> events--; move_kill_set(kill_is); stop(1) } /* a switch over the call */
	:: d_step { kill_is == kill_on -> move_kill_lifted(kill_is) }
	:: d_step { events && !over && open -> events--; close() } /* pagehide */
	:: d_step { events && !over && up[0] -> events--; up[0] = 0; gone[0] = 1; close() }
	:: d_step { events && !over && up[1] && first == 1 -> events--; up[1] = 0; gone[1] = 1 }
	:: events && !over && !gone[0] && arm_is == arm_consumed -> events--; gone[0] = 1 /* it stalls, and is taken for dead */
	:: events && !gone[1] && active_call && holder == 1 -> events--; gone[1] = 1
	od
}

/* What holds in every state. */
active proctype Always() {
	do
	:: !(claims <= 1 && sent <= 1 && executed <= 1) -> broken(at_most_once)
	:: !(sent == 0 || claim != 0) -> broken(claimed_before_sent)
	:: !(sent == 0 || !mutation || confirmed && yes) -> broken(confirmed_before_sent)
	:: mutation && call_is != call_absent && effect == NONE && executed -> broken(honest_none)
	:: effect == COMMITTED && !(mutation && page_done) -> broken(honest_committed)
	:: (call_is == call_pending_confirmation || call_is == call_dispatched) && lease_is != lease_active -> broken(call_under_lease)
	:: lease_is == lease_active && (arm_is != arm_consumed || registration_is != registration_published) -> broken(lease_under_arm)
	/* Where nothing moves any more the call has its outcome. */
	:: timeout ->
		if
		:: call_is == call_absent || over -> break
		:: else -> broken(outcome_comes)
		fi
	od
}

init {
	atomic {
		mutation = MUTATION;
		move_arm_granted(arm_is); move_arm_finalized(arm_is); move_arm_consumed(arm_is);
		move_registration_registered(registration_is); move_document_pointed(document_is); move_registration_published(registration_is);
		move_lease_issued(lease_is);
		open = 1; up[0] = 1; up[1] = 1;
		if
		:: first = 0
		:: first = 1
		fi;
		run Delivery(first)
	}
}

/* Made from the tables of internal/attended/ledger by go generate there. */

c_decl { static char moved[99]; }

/* arm */
#define arm_absent 0
#define arm_recent_auth_active 1
#define arm_active 2
#define arm_consumed 3
#define arm_revoked 4
#define arm_expired 5
#define can_arm_granted(is) ((is) == arm_absent)
inline move_arm_granted(is) {
	if
	:: is == arm_absent ->
		is = arm_recent_auth_active;
		c_code { if (!moved[0]) { moved[0] = 1; printf("moved arm granted absent recent_auth_active\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_arm_finalized(is) ((is) == arm_recent_auth_active)
inline move_arm_finalized(is) {
	if
	:: is == arm_recent_auth_active ->
		is = arm_active;
		c_code { if (!moved[1]) { moved[1] = 1; printf("moved arm finalized recent_auth_active active\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_arm_consumed(is) ((is) == arm_active)
inline move_arm_consumed(is) {
	if
	:: is == arm_active ->
		is = arm_consumed;
		c_code { if (!moved[2]) { moved[2] = 1; printf("moved arm consumed active consumed\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_arm_revoked(is) ((is) == arm_recent_auth_active || (is) == arm_active || (is) == arm_consumed)
inline move_arm_revoked(is) {
	if
	:: is == arm_recent_auth_active ->
		is = arm_revoked;
		c_code { if (!moved[3]) { moved[3] = 1; printf("moved arm revoked recent_auth_active revoked\n"); } }
	:: is == arm_active ->
		is = arm_revoked;
		c_code { if (!moved[4]) { moved[4] = 1; printf("moved arm revoked active revoked\n"); } }
	:: is == arm_consumed ->
		is = arm_revoked;
		c_code { if (!moved[5]) { moved[5] = 1; printf("moved arm revoked consumed revoked\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_arm_expired(is) ((is) == arm_recent_auth_active || (is) == arm_active || (is) == arm_consumed)
inline move_arm_expired(is) {
	if
	:: is == arm_recent_auth_active ->
		is = arm_expired;
		c_code { if (!moved[6]) { moved[6] = 1; printf("moved arm expired recent_auth_active expired\n"); } }
	:: is == arm_active ->
		is = arm_expired;
		c_code { if (!moved[7]) { moved[7] = 1; printf("moved arm expired active expired\n"); } }
	:: is == arm_consumed ->
		is = arm_expired;
		c_code { if (!moved[8]) { moved[8] = 1; printf("moved arm expired consumed expired\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}

/* document */
#define document_absent 0
#define document_pointed 1
#define document_cleared 2
#define can_document_pointed(is) ((is) == document_absent || (is) == document_pointed || (is) == document_cleared)
inline move_document_pointed(is) {
	if
	:: is == document_absent ->
		is = document_pointed;
		c_code { if (!moved[9]) { moved[9] = 1; printf("moved document pointed absent pointed\n"); } }
	:: is == document_pointed ->
		is = document_pointed;
		c_code { if (!moved[10]) { moved[10] = 1; printf("moved document pointed pointed pointed\n"); } }
	:: is == document_cleared ->
		is = document_pointed;
		c_code { if (!moved[11]) { moved[11] = 1; printf("moved document pointed cleared pointed\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_document_cleared(is) ((is) == document_pointed)
inline move_document_cleared(is) {
	if
	:: is == document_pointed ->
		is = document_cleared;
		c_code { if (!moved[12]) { moved[12] = 1; printf("moved document cleared pointed cleared\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}

/* registration */
#define registration_absent 0
#define registration_pending 1
#define registration_published 2
#define registration_retired 3
#define can_registration_registered(is) ((is) == registration_absent)
inline move_registration_registered(is) {
	if
	:: is == registration_absent ->
		is = registration_pending;
		c_code { if (!moved[13]) { moved[13] = 1; printf("moved registration registered absent pending\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_registration_published(is) ((is) == registration_pending)
inline move_registration_published(is) {
	if
	:: is == registration_pending ->
		is = registration_published;
		c_code { if (!moved[14]) { moved[14] = 1; printf("moved registration published pending published\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_registration_retired(is) ((is) == registration_pending || (is) == registration_published)
inline move_registration_retired(is) {
	if
	:: is == registration_pending ->
		is = registration_retired;
		c_code { if (!moved[15]) { moved[15] = 1; printf("moved registration retired pending retired\n"); } }
	:: is == registration_published ->
		is = registration_retired;
		c_code { if (!moved[16]) { moved[16] = 1; printf("moved registration retired published retired\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}

/* lease */
#define lease_absent 0
#define lease_active 1
#define lease_revoked 2
#define lease_expired 3
#define can_lease_issued(is) ((is) == lease_absent)
inline move_lease_issued(is) {
	if
	:: is == lease_absent ->
		is = lease_active;
		c_code { if (!moved[17]) { moved[17] = 1; printf("moved lease issued absent active\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_lease_revoked(is) ((is) == lease_active)
inline move_lease_revoked(is) {
	if
	:: is == lease_active ->
		is = lease_revoked;
		c_code { if (!moved[18]) { moved[18] = 1; printf("moved lease revoked active revoked\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_lease_expired(is) ((is) == lease_active)
inline move_lease_expired(is) {
	if
	:: is == lease_active ->
		is = lease_expired;
		c_code { if (!moved[19]) { moved[19] = 1; printf("moved lease expired active expired\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}

/* call */
#define call_absent 0
#define call_pending_confirmation 1
#define call_dispatched 2
#define call_denied 3
#define call_failed 4
#define call_cancelled 5
#define call_cancelling 6
#define call_succeeded 7
#define call_unknown 8
#define call_unknown_reaped 9
#define can_call_admitted(is) ((is) == call_absent)
inline move_call_admitted(is) {
	if
	:: is == call_absent ->
		is = call_pending_confirmation;
		c_code { if (!moved[20]) { moved[20] = 1; printf("moved call admitted absent pending_confirmation\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_call_dispatched(is) ((is) == call_absent)
inline move_call_dispatched(is) {
	if
	:: is == call_absent ->
		is = call_dispatched;
		c_code { if (!moved[21]) { moved[21] = 1; printf("moved call dispatched absent dispatched\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_call_confirmed(is) ((is) == call_pending_confirmation)
inline move_call_confirmed(is) {
	if
	:: is == call_pending_confirmation ->
		is = call_dispatched;
		c_code { if (!moved[22]) { moved[22] = 1; printf("moved call confirmed pending_confirmation dispatched\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_call_denied(is) ((is) == call_pending_confirmation)
inline move_call_denied(is) {
	if
	:: is == call_pending_confirmation ->
		is = call_denied;
		c_code { if (!moved[23]) { moved[23] = 1; printf("moved call denied pending_confirmation denied\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_call_lapsed(is) ((is) == call_pending_confirmation)
inline move_call_lapsed(is) {
	if
	:: is == call_pending_confirmation ->
		is = call_denied;
		c_code { if (!moved[24]) { moved[24] = 1; printf("moved call lapsed pending_confirmation denied\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_call_retired(is) ((is) == call_pending_confirmation)
inline move_call_retired(is) {
	if
	:: is == call_pending_confirmation ->
		is = call_failed;
		c_code { if (!moved[25]) { moved[25] = 1; printf("moved call retired pending_confirmation failed\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_call_cancelled(is) ((is) == call_pending_confirmation)
inline move_call_cancelled(is) {
	if
	:: is == call_pending_confirmation ->
		is = call_cancelled;
		c_code { if (!moved[26]) { moved[26] = 1; printf("moved call cancelled pending_confirmation cancelled\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_call_withheld(is) ((is) == call_dispatched || (is) == call_cancelling)
inline move_call_withheld(is) {
	if
	:: is == call_dispatched ->
		is = call_failed;
		c_code { if (!moved[27]) { moved[27] = 1; printf("moved call withheld dispatched failed\n"); } }
	:: is == call_cancelling ->
		is = call_failed;
		c_code { if (!moved[28]) { moved[28] = 1; printf("moved call withheld cancelling failed\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_call_stopping(is) ((is) == call_dispatched)
inline move_call_stopping(is) {
	if
	:: is == call_dispatched ->
		is = call_cancelling;
		c_code { if (!moved[29]) { moved[29] = 1; printf("moved call stopping dispatched cancelling\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_call_stopped(is) ((is) == call_cancelling || (is) == call_unknown)
inline move_call_stopped(is) {
	if
	:: is == call_cancelling ->
		is = call_cancelled;
		c_code { if (!moved[30]) { moved[30] = 1; printf("moved call stopped cancelling cancelled\n"); } }
	:: is == call_unknown ->
		is = call_cancelled;
		c_code { if (!moved[31]) { moved[31] = 1; printf("moved call stopped unknown cancelled\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_call_succeeded(is) ((is) == call_dispatched || (is) == call_cancelling || (is) == call_unknown)
inline move_call_succeeded(is) {
	if
	:: is == call_dispatched ->
		is = call_succeeded;
		c_code { if (!moved[32]) { moved[32] = 1; printf("moved call succeeded dispatched succeeded\n"); } }
	:: is == call_cancelling ->
		is = call_succeeded;
		c_code { if (!moved[33]) { moved[33] = 1; printf("moved call succeeded cancelling succeeded\n"); } }
	:: is == call_unknown ->
		is = call_succeeded;
		c_code { if (!moved[34]) { moved[34] = 1; printf("moved call succeeded unknown succeeded\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_call_failed(is) ((is) == call_dispatched || (is) == call_cancelling || (is) == call_unknown)
inline move_call_failed(is) {
	if
	:: is == call_dispatched ->
		is = call_failed;
		c_code { if (!moved[35]) { moved[35] = 1; printf("moved call failed dispatched failed\n"); } }
	:: is == call_cancelling ->
		is = call_failed;
		c_code { if (!moved[36]) { moved[36] = 1; printf("moved call failed cancelling failed\n"); } }
	:: is == call_unknown ->
		is = call_failed;
		c_code { if (!moved[37]) { moved[37] = 1; printf("moved call failed unknown failed\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_call_lost(is) ((is) == call_dispatched || (is) == call_cancelling)
inline move_call_lost(is) {
	if
	:: is == call_dispatched ->
		is = call_unknown;
		c_code { if (!moved[38]) { moved[38] = 1; printf("moved call lost dispatched unknown\n"); } }
	:: is == call_cancelling ->
		is = call_unknown;
		c_code { if (!moved[39]) { moved[39] = 1; printf("moved call lost cancelling unknown\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_call_reaped(is) ((is) == call_unknown)
inline move_call_reaped(is) {
	if
	:: is == call_unknown ->
		is = call_unknown_reaped;
		c_code { if (!moved[40]) { moved[40] = 1; printf("moved call reaped unknown unknown_reaped\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}

/* kill */
#define kill_absent 0
#define kill_on 1
#define kill_lifted 2
#define can_kill_set(is) ((is) == kill_absent)
inline move_kill_set(is) {
	if
	:: is == kill_absent ->
		is = kill_on;
		c_code { if (!moved[41]) { moved[41] = 1; printf("moved kill set absent on\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}
#define can_kill_lifted(is) ((is) == kill_on)
inline move_kill_lifted(is) {
	if
	:: is == kill_on ->
		is = kill_lifted;
		c_code { if (!moved[42]) { moved[42] = 1; printf("moved kill lifted on lifted\n"); } }
	:: else -> assert(false) /* no such move */
	fi
}

package browser

// observe asks a session that has just attached for more events than the core
// needs. mu is held and the target hasn't run yet: post, don't call.
func observe(*session) {}

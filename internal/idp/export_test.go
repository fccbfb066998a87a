package idp

// Missing answers which words a language lacks that another has.
func Missing() map[string][]string {
	out := map[string][]string{}
	for _, have := range words {
		for key := range have {
			for lang, other := range words {
				if other[key] == "" {
					out[lang] = append(out[lang], key)
				}
			}
		}
	}
	return out
}

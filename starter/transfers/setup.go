package transfers

import "payonce/workflows"

// SearchAttributes are those that a namespace must know before a worker serves it: names and types.
func SearchAttributes() map[string]string {
	attributes := make(map[string]string)
	for _, key := range workflows.SearchAttributes() {
		attributes[key.GetName()] = key.GetValueType().String()
	}
	return attributes
}

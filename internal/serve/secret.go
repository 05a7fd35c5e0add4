package serve

import "payonce/internal/secret"

// Secret is a text that must not be seen.
type Secret = secret.Text

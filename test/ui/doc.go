// Package ui looks at the web page as people do: a real Chromium, over a whole federation. Every
// view is also read by axe-core, in light and dark. Needs `make browser openid ui-tools` once;
// `make test` does both by itself. With SCREENSHOTS it writes the pictures of the documentation
// (`make screenshots`).
package ui

// Package settings owns where the API is and with which credentials: the flags that every command
// has, over the environment, over the configuration file.
package settings

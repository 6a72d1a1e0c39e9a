// Command taskbridge lets any Model Context Protocol client talk to any server
// although they speak different dialects of tasks and of the protocol under them.
package main

func main() {}

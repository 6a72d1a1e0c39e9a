package child

const sweeps = true

func running(pid int) bool {
	_, alive := lookAt(pid)
	return alive
}

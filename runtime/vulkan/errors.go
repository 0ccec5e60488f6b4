package vulkan

import (
	"errors"
	"fmt"

	"github.com/tmacc/tmacc/runtime/vulkan/vk"
)

// Unavailable is why there is no device to use: no loader, no driver, no device, or one that is too old.
type Unavailable struct {
	Problem, Remedy string
	Named           bool // somebody has named the device, which perhaps is not meant
}

func (e *Unavailable) Error() string { return "vulkan: " + e.Problem + ": " + e.Remedy }

// NoDevice implements abi.NoDevice.
func (e *Unavailable) NoDevice() bool { return !e.Named }

// Refused is a shader that a device cannot run, by what the device says of itself.
type Refused struct{ Device, Reason string }

func (e *Refused) Error() string {
	return fmt.Sprintf("vulkan: a pipeline on %s: %s", e.Device, e.Reason)
}

// NoDevice implements abi.NoDevice.
func (e *Refused) NoDevice() bool { return true }

// ErrLost is in every error of a device that is lost: its driver was reset, or the card was removed. Open opens it again, with new buffers.
var ErrLost = errors.New("the device is lost")

// OutOfMemory is an allocation that does not fit.
type OutOfMemory struct {
	Device     string
	Need, Free int64 // bytes
}

// Missing is the number of bytes that would have to be free as well.
func (e *OutOfMemory) Missing() int64 { return max(0, e.Need-e.Free) }

func (e *OutOfMemory) Error() string {
	text := fmt.Sprintf("vulkan: %s has too little memory: %s needed, %s free", e.Device, bytesText(e.Need), bytesText(e.Free))
	if e.Missing() > 0 {
		return text + ", " + bytesText(e.Missing()) + " missing"
	}
	return text + " but refused by its driver, which needs larger free pieces"
}

// bytesText is a number of bytes for people.
func bytesText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}

// Invalid is what the validation layer found wrong with a call.
type Invalid struct{ Messages []string }

func (e *Invalid) Error() string {
	text := "vulkan: the validation layer says: " + e.Messages[0]
	if n := len(e.Messages) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more)", n)
	}
	return text
}

// failed is the error of a call of Vulkan, nil if it succeeded.
func failed(call string, r vk.Result) error {
	if r >= 0 {
		return nil
	}
	return fmt.Errorf("vulkan: %s: %v", call, r)
}

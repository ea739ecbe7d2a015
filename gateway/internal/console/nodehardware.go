package console

import "muster/gateway/internal/console/picture"

func (data *nodePage) describeHardware() {
	h := data.Hardware
	if h == nil {
		return
	}
	data.GPUs = picture.GPUsOf(h)
	data.Sheet = picture.SheetOf(h.GPUs)
	data.Host = picture.HostOf(h)
}

package web

import "muster/gateway/internal/picture"

func (data *nodePage) describeHardware() {
	h := data.Hardware
	if h == nil {
		return
	}
	data.GPUs = picture.GPUsOf(h)
	data.Sheet = picture.SheetOf(h.GPUs)
	data.Host = picture.HostOf(h)
}

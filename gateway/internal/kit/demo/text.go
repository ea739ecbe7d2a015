package main

import "strings"

// text is what to type, in order.
func (p *play) text() string {
	at := map[string]string{}
	for _, c := range p.companies {
		at[c.kind] = c.url()
	}
	return strings.NewReplacer("DIR", p.dir, "PROGRAMS", p.programs, "VAST", at["vast_ai"], "RUNPOD", at["runpod"], "LAMBDA", at["lambda"],
		"REGION", p.metal.url(), "CONTROL", "http://"+p.control).Replace(script)
}

const script = `A gateway runs, and a simulated vast.ai, RunPod, Lambda Cloud and MAAS.
Each machine that is rented or installed there is an agent on this one. In
another terminal:

  cd DIR
  export PATH=PROGRAMS:$PATH MUSTER_DATA=$PWD/data

RENTING. Three machines join the fleet:

  muster provider add vast_ai --key-file key --url VAST
  muster rent --provider vast_ai --gpu H100 --count 3 --max-price 2.5 \
    --ttl 1h --label batch=x --yes
  muster provider instances

One dies, and the company does not see that. After a minute it is billed and
silent, with its cost a day and what settles it. Then all are given back, the
dead one too:

  curl -sX POST CONTROL/machines/1001/crash
  sleep 60; muster provider plan
  muster node return -l batch=x --destroy --yes && muster provider plan
  muster cost

The host 109 has a GPU less than it is paid for: another machine is rented in
its place.

  muster rent --provider vast_ai --gpu H100 --gpus 8 --max-price 18 \
    --ttl 1h --yes

The other companies:

  muster provider add runpod --key-file key --url RUNPOD
  muster provider add lambda --key-file key --ssh-key demo \
    --url LAMBDA
  muster rent --provider runpod --gpu H100 --gpus 2 --max-price 7 \
    --ttl 1h --yes
  muster rent --provider lambda --gpu H100 --max-price 4 --ttl 1h --yes
  muster provider ls

BARE METAL. MAAS is at REGION, and its API key in maas.key.
rack-1 is new, rack-2 is ready, and the commissioning of rack-3 failed. muster
looks at MAAS each 30 seconds:

  muster maas ls
  muster maas commission rack-1 --wait
  muster maas reset rack-3 --yes --wait
  muster node wait rack-1 rack-2 rack-3 --state commissioned
  muster profile assign container rack-1 rack-2 rack-3
  muster node wait rack-1 rack-2 rack-3 --state ready

rack-1 is installed, joins, and is given back:

  muster maas deploy rack-1 --wait
  muster maas ls && muster node show rack-1
  muster node drain rack-1
  muster maas release rack-1 --erase --yes --wait

rack-2 fails its next commissioning, and is brought back:

  curl -sX POST CONTROL/maas/rack-2/fail
  muster maas commission rack-2 && sleep 60; muster maas plan
  curl -sX POST CONTROL/maas/rack-2/mend
  muster maas reset rack-2 --yes --wait
  muster maas ls

BREAKING THINGS. curl -X POST what stands here. COMPANY is vast_ai, runpod or
lambda:

  CONTROL/COMPANY/machines/ID/WHAT
    kill, lose, recover, remove or overbid, which the company sees too
  CONTROL/COMPANY/faults
    a fault, such as -d '{"Kind":"status","Status":503}'; -X DELETE heals all
  CONTROL/maas/NAME/WHAT
    fail: until mend, its commissionings and erasures fail
    hang: until mend, it is installed and never heard, and muster takes it back
    after five minutes
    mend: it is as before

^C ends the demo. Its logs are in DIR until then.
`

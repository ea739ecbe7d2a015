// Plays a recording back: lines appear when their time has come. A pause is never longer than two seconds, as in muster session play.
"use strict";
(() => {
  const bar = document.getElementById("playback");
  const list = document.getElementById("cast");
  if (!bar || !list) return;
  const longest = 2000;
  const button = document.getElementById("play");
  const speed = document.getElementById("speed");
  const position = document.getElementById("position");
  const clock = document.getElementById("clock");
  const lines = [...list.querySelectorAll("li")];
  const label = lines.map((line) => line.querySelector("time").textContent);
  const begins = []; // by line: when it appears, in milliseconds of the playing
  let before = Number(lines[0].dataset.at);
  let length = 0;
  for (const line of lines) {
    const at = Number(line.dataset.at);
    length += Math.min(at - before, longest);
    before = at;
    begins.push(length);
  }
  let now = length; // at first all is there
  let shown = lines.length;
  let last = 0; // of the steps of the playing; 0: it stands

  const show = () => {
    let count = shown;
    while (count < lines.length && begins[count] <= now) count++;
    while (count > 0 && begins[count - 1] > now) count--;
    for (let i = Math.min(count, shown); i < Math.max(count, shown); i++) lines[i].hidden = i >= count;
    const grew = count > shown;
    shown = count;
    position.value = now;
    clock.textContent = (count ? label[count - 1] : label[0]) + " / " + label[label.length - 1];
    if (grew) list.scrollTop = list.scrollHeight;
  };
  const stop = () => {
    last = 0;
    button.textContent = now >= length ? "Play" : "Go on";
  };
  const step = (at) => {
    if (!last) return;
    now = Math.min(now + (at - last) * Number(speed.value), length);
    last = at;
    show();
    if (now >= length) stop();
    else requestAnimationFrame(step);
  };
  button.addEventListener("click", () => {
    if (last) {
      stop();
      return;
    }
    if (now >= length) now = 0;
    list.style.minHeight = list.offsetHeight + "px"; // what stands below stays where it is
    button.textContent = "Pause";
    last = performance.now();
    show();
    requestAnimationFrame(step);
  });
  position.addEventListener("input", () => {
    now = Number(position.value);
    show();
    if (!last) stop();
  });
  position.max = length;
  bar.hidden = false;
  show();
})();

// Shows what a running task writes, as it comes.
"use strict";
(() => {
  const place = document.getElementById("output");
  const state = document.getElementById("output-state");
  if (!place) return;
  const code = place.querySelector("code");
  const path = "/ui/api/tasks/" + encodeURIComponent(place.dataset.task);
  let next = Number(place.dataset.bytes);
  const append = (text) => {
    const atEnd = place.scrollTop + place.clientHeight >= place.scrollHeight - 8;
    code.append(text);
    if (atEnd) place.scrollTop = place.scrollHeight;
  };
  const follow = async () => {
    const answer = await fetch(path + "/output?follow=true&from=" + next);
    if (!answer.ok) throw new Error("status " + answer.status);
    const reader = answer.body.getReader();
    const decoder = new TextDecoder();
    state.textContent = "Live.";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      next += value.length;
      append(decoder.decode(value, { stream: true }));
    }
  };
  const ended = async () => {
    const answer = await fetch(path);
    if (!answer.ok) throw new Error("status " + answer.status);
    const task = await answer.json();
    return task.finished_at !== null;
  };
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const run = async () => {
    for (;;) {
      try {
        await follow();
        if (await ended()) {
          location.reload();
          return;
        }
      } catch {
        state.textContent = "The gateway does not answer since " + musterClock(new Date()) + ". Trying again.";
      }
      await wait(2000);
    }
  };
  run();
})();

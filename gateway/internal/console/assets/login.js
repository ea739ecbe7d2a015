// Takes the one-time code from behind the # of the link that muster login prints. The code leaves the address bar first. The gateway asks
// where it is of another account than this browser was logged in as: the link may be somebody else's.
"use strict";
{
  const code = location.hash.slice(1);
  if (/^[A-Z2-7]{26}$/.test(code)) {
    history.replaceState(null, "", location.pathname + location.search);
    document.getElementById("code").value = code;
    document.getElementById("by-code").requestSubmit();
  }
}

// Takes the one-time code from behind the # of the link that muster login prints. The code leaves the address bar first. Who is logged in
// already is asked: the link may be somebody else's, and would change the account unseen.
"use strict";
(async () => {
  const code = location.hash.slice(1);
  if (!/^[A-Z2-7]{26}$/.test(code)) return;
  history.replaceState(null, "", location.pathname + location.search);
  document.getElementById("code").value = code;
  let page;
  try {
    // The browser sends no cookie for a page that another site leads to. With what this page asks for it does.
    const answer = await fetch(location.pathname, { cache: "no-store" });
    page = await answer.text();
  } catch {
    return; // the person can send the form by hand
  }
  if (!page.includes("data-asks")) document.getElementById("by-code").requestSubmit();
})();

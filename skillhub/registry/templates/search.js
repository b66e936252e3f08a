// Searches the listing of the registry as one types. Nothing of it becomes markup; without this script the page is whole.
"use strict";
const box = document.querySelector(".search");
const words = document.getElementById("words");
const hits = document.getElementById("hits");
const found = document.getElementById("found");
const MOST = 50;
let listing = null;

function add(parent, name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  parent.append(made);
  return made;
}

// What draws nothing, or turns around what stands beside it, is left out as on the pages.
function clean(text) {
  return String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, " ");
}

function read() {
  listing ??= fetch(box.dataset.listing, { credentials: "omit" })
    .then((answer) => answer.json())
    .then((index) => index.skills
      .filter((each) => /^[a-z0-9]+(-[a-z0-9]+)*$/.test(each.name))
      .map((each) => [each, [each.name, each.description, each.publisher].join(" ").toLowerCase()]));
  return listing;
}

async function search() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) {
    found.replaceChildren();
    hits.textContent = "";
    return;
  }
  let every;
  try {
    every = await read();
  } catch {
    listing = null;
    hits.textContent = "The listing cannot be read.";
    return;
  }
  if (wanted.join() !== words.value.toLowerCase().split(/\s+/).filter(Boolean).join()) return;
  const matching = every.filter(([each, text]) => wanted.every((word) => text.includes(word)));
  matching.sort(([one], [other]) => wanted.includes(other.name) - wanted.includes(one.name));
  hits.textContent = matching.length > MOST ? `${MOST} of ${matching.length} skills` : `${matching.length} skills`;
  found.replaceChildren();
  for (const [each] of matching.slice(0, MOST)) {
    const row = document.createElement("li");
    const heading = add(row, "h3", "");
    add(heading, "a", each.name).href = `${box.dataset.pages}${each.name}.html`;
    // As in the lists of the pages.
    const isWithdrawn = each.withdrawn != null;
    if (isWithdrawn) add(heading, "span", "withdrawn", "mark bad");
    else if (each.yanked != null) add(heading, "span", "yanked", "mark held");
    if (!isWithdrawn) add(row, "p", clean(each.description).slice(0, 240), "said");
    found.append(row);
  }
}

words.addEventListener("input", search);
box.hidden = false;

// Searches the list of skills while the user types. No text becomes markup; the page works without this script.
// In a large registry, the list is the prefixes of groups of names; only groups with a word that begins with the longest
// typed word are read.
"use strict";
const box = document.querySelector(".search");
const words = document.getElementById("words");
const hits = document.getElementById("hits");
const found = document.getElementById("found");
const MOST = 50;
const SHORT = 240;
const GROUPS = 8;
const read = new Map();
let more = false;

function add(parent, name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  parent.append(made);
  return made;
}

// Replaces characters that are invisible, or reverse the text beside them, as on the pages.
function clean(text) {
  return String(text).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, " ");
}

function get(address) {
  if (!read.has(address)) {
    const answer = fetch(address, { credentials: "omit" }).then((answer) => {
      if (!answer.ok) throw new Error(answer.status);
      return answer.json();
    });
    answer.catch(() => read.delete(address));
    read.set(address, answer);
  }
  return read.get(address);
}

async function candidates(wanted) {
  const listing = await get(box.dataset.listing);
  more = false;
  if (!Array.isArray(listing)) return listing.skills;
  const word = wanted.reduce((one, other) => (other.length > one.length ? other : one));
  const every = listing.filter((start) => start.startsWith(word) || word.startsWith(start));
  more = every.length > GROUPS;
  const starts = every.slice(0, GROUPS);
  const folder = box.dataset.listing.replace(/\.json$/, "");
  const groups = await Promise.all(starts.map((start) => get(`${folder}/p-${encodeURIComponent(start)}.json`)));
  const byName = new Map();
  for (const each of groups.flatMap((group) => group.skills)) {
    if (each.key.startsWith(word)) byName.set(each.name, each);
  }
  return [...byName.values()];
}

async function texts(wanted) {
  return (await candidates(wanted))
    .filter((each) => /^[a-z0-9]+(-[a-z0-9]+)*$/.test(each.name))
    .map((each) => [each, [each.name, each.description, each.publisher].join(" ").toLowerCase()]);
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
    every = await texts(wanted);
  } catch {
    hits.textContent = "The listing cannot be read.";
    return;
  }
  if (wanted.join() !== words.value.toLowerCase().split(/\s+/).filter(Boolean).join()) return;
  const matching = every.filter(([each, text]) => wanted.every((word) => text.includes(word)));
  matching.sort(([one], [other]) => wanted.includes(other.name) - wanted.includes(one.name));
  const total = `${matching.length}${more ? " or more" : ""} ${matching.length === 1 && !more ? "skill" : "skills"}`;
  hits.textContent = matching.length > MOST ? `${MOST} of ${total}` : total;
  found.replaceChildren();
  for (const [each] of matching.slice(0, MOST)) {
    const row = document.createElement("li");
    const heading = add(row, "h3", "");
    add(heading, "a", each.name).href = `${box.dataset.pages}${each.name}.html`;
    // As in the lists of the pages.
    heading.append(" ");
    const isWithdrawn = each.withdrawn != null;
    if (isWithdrawn) add(heading, "span", "withdrawn", "mark bad");
    else if (each.yanked != null) add(heading, "span", "yanked", "mark held");
    const about = clean(each.description);
    if (!isWithdrawn) add(row, "p", about.length > SHORT ? `${about.slice(0, SHORT)}…` : about, "said");
    found.append(row);
  }
}

words.addEventListener("input", search);
box.hidden = false;

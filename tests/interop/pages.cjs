// Opens every page of a registry's site in Chromium, at two widths, light and dark, and prints what is wrong as JSON.
// node pages.cjs CHROMIUM URL PATH... ; SKILLHUB_SCREENSHOTS names a folder for those who want to look at them.
const { chromium } = require("playwright-core");
const axe = require("fs").readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [program, base, ...paths] = process.argv.slice(2);
const kept = process.env.SKILLHUB_SCREENSHOTS;

async function look(browser, width, colorScheme, wrong) {
  const say = (path, what) => wrong.push(`${path} (${width}, ${colorScheme}): ${what}`);
  const shown = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
  let path = "";
  shown.on("request", (request) => request.url().startsWith(`${base}/`) || say(path, `asked for ${request.url()}`));
  shown.on("console", (message) => say(path, message.text()));
  shown.on("dialog", (dialog) => { say(path, "a dialog"); dialog.dismiss(); });
  for (path of paths) {
    await shown.goto(`${base}/${path}`);
    await shown.evaluate(() => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
    if (await shown.evaluate(() => window.RAN !== undefined || document.title.includes("PWNED"))) say(path, "a script ran");
    if (await shown.evaluate(() => document.documentElement.scrollWidth > innerWidth)) say(path, "wider than the window");
    if (shown.url() !== `${base}/${path}`) say(path, `went to ${shown.url()}`);
    if (kept) await shown.screenshot({ path: `${kept}/${path.replaceAll("/", "_")}-${width}-${colorScheme}.png`, fullPage: true });
  }
  path = "index.html";
  await shown.goto(`${base}/${path}`);
  await shown.keyboard.press("Tab");
  if (await shown.evaluate(() => document.activeElement.className) !== "skip") say(path, "Tab does not begin at the skip link");
  await shown.fill("#words", "release-notes");
  await shown.waitForSelector("#found .mark");
  const row = await shown.textContent("#found li");
  if (!row.startsWith("release-notes yanked") || !row.endsWith("…")) say(path, `a hit says ${row}`);
  if (await shown.textContent("#hits") !== "1 skill") say(path, "one skill is not counted as one");
  await shown.fill("#words", "");
  await shown.fill("#words", "hostile");
  await shown.waitForSelector("#found a");
  if (await shown.getAttribute("#found a", "href") !== "-/skill/hostile.html") say(path, "the search finds something else");
  await shown.click("#found a");
  if (!shown.url().endsWith("/-/skill/hostile.html")) say(path, "a hit leads elsewhere");
  await shown.close();
  // The policy of the pages keeps axe out, too.
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, bypassCSP: true });
  const judged = await context.newPage();
  for (path of paths) {
    await judged.goto(`${base}/${path}`);
    await judged.evaluate(() => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
    await judged.evaluate(axe);
    for (const each of (await judged.evaluate("axe.run()")).violations) {
      if (["serious", "critical"].includes(each.impact)) say(path, `${each.id}: ${each.nodes[0].html.slice(0, 200)}`);
    }
  }
  await context.close();
}

(async () => {
  const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox"] });
  const wrong = [];
  for (const width of [360, 1280]) for (const scheme of ["light", "dark"]) await look(browser, width, scheme, wrong);
  await browser.close();
  console.log(JSON.stringify(wrong));
})();

"use strict";
// Shared by both pages: embedded data, building elements, language and theme.
// Texts of a report are only ever set as text: nothing here parses markup.
const data = JSON.parse(document.getElementById("data").textContent);
const root = document.documentElement;
const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((each) => each !== null && each !== undefined));
  return node;
}
const make = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);
const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

const chinese = () => root.dataset.lang === "zh";
const say = (key) => data.strings[key][chinese() ? "zh" : "en"];
/** A text in both languages; the style shows the chosen one. */
function both(key) {
  const { en, zh } = data.strings[key];
  return make("span", {}, make("span", { lang: "en" }, en), make("span", { lang: "zh-Hans" }, zh));
}
/** A text as a label, with the colon of its language. */
function label(key) {
  const { en, zh } = data.strings[key];
  return inBoth(`${en}: `, `${zh}：`);
}
/** A text and its translation, if it has one. */
const inBoth = (en, zh) => zh
  ? make("span", {}, make("span", { lang: "en" }, en), make("span", { lang: "zh-Hans" }, zh))
  : make("span", {}, en);
const badge = (verdict) =>
  make("span", { class: `v ${verdict.replace(" ", "-")}` }, both(`v_${verdict}`));

function remembered(key) {
  const asked = new URLSearchParams(location.search).get(key);
  if (asked) return asked;
  try { return localStorage.getItem(`ascendcache-${key}`); } catch { return null; }
}
function remember(key, value) {
  try { localStorage.setItem(`ascendcache-${key}`, value); } catch { /* not allowed for a page opened from a file */ }
}

function speak(language) {
  root.dataset.lang = language;
  root.lang = language === "zh" ? "zh-Hans" : "en";
  for (const node of all("[data-label]")) node.setAttribute("aria-label", say(node.dataset.label));
  for (const node of all("[data-hint]")) node.placeholder = say(node.dataset.hint);
  for (const node of all("option[data-text]")) node.textContent = say(node.dataset.text);
}

function settle() {
  const theme = remembered("theme");
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;
  const language = remembered("lang") || (navigator.language.startsWith("zh") ? "zh" : "en");
  speak(language === "zh" ? "zh" : "en");
  one("#language").addEventListener("click", () => {
    speak(chinese() ? "en" : "zh");
    remember("lang", root.dataset.lang);
    document.dispatchEvent(new Event("languagechange"));
  });
  one("#theme").addEventListener("click", () => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = root.dataset.theme || (dark ? "dark" : "light");
    root.dataset.theme = now === "dark" ? "light" : "dark";
    remember("theme", root.dataset.theme);
  });
}

/** Replaces the generated parts of a page, which are between two comments. */

const section = /<!-- generated: ([a-z-]+) -->\n[\s\S]*?<!-- end -->/g;

/** Returns the page with every marked section regenerated. `path` is for messages. */
export function fillSections(path: string, page: string, sections: Record<string, () => string>): string {
  const writtenSections = new Set<string>();
  const newPage = page.replace(section, (_, name: string) => {
    const render = sections[name];
    if (!render) throw new Error(`${path} marks a section that has no generator: ${name}`);
    writtenSections.add(name);
    return `<!-- generated: ${name} -->\n${render()}\n<!-- end -->`;
  });
  const missing = Object.keys(sections).filter((name) => !writtenSections.has(name));
  if (missing.length > 0) throw new Error(`${path} has no place for ${missing.join(', ')}`);
  return newPage;
}

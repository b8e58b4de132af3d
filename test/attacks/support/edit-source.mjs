/**
 * A loader hook for counter-tests: edits source files as Node loads them. `SLIPWAY_TEST_EDITS` is a
 * JSON list of `{file, find, replace}`, with paths from the repository's root. Each `find` must
 * occur exactly once, so that an edit whose target has moved fails instead of testing nothing.
 */
import { registerHooks } from 'node:module';

const root = new URL('../../../', import.meta.url).href;
const edits = JSON.parse(process.env.SLIPWAY_TEST_EDITS ?? '[]');

function applyEdit(source, { file, find, replace }) {
  const occurrences = source.split(find).length - 1;
  if (occurrences !== 1)
    throw new Error(`${file}: expected one occurrence of ${JSON.stringify(find)}, found ${occurrences}`);
  return source.replace(find, () => replace);
}

registerHooks({
  load(url, context, nextLoad) {
    const loadedModule = nextLoad(url, context);
    const fileEdits = edits.filter(({ file }) => url === root + file);
    if (fileEdits.length === 0) return loadedModule;
    return { ...loadedModule, source: fileEdits.reduce(applyEdit, String(loadedModule.source)) };
  },
});

/**
 * All house rules that can be checked automatically. Each rule has examples: sets of files that
 * violate it. The test shows that the rule finds a violation in each set.
 */
import { callRules } from './call-rules.ts';
import { commentRules } from './comment-rules.ts';
import { cycleRules } from './cycle-rules.ts';
import { docsRules } from './docs-rules.ts';
import { fileRules } from './file-rules.ts';
import { folderRules } from './folder-rules.ts';
import { importRules } from './import-rules.ts';
import type { Rule } from './source.ts';
import { textParsingRules } from './text-parsing-rules.ts';
import { visibilityRules } from './visibility-rules.ts';

export const tidyRules: Rule[] = [
  ...importRules,
  ...cycleRules,
  ...textParsingRules,
  ...callRules,
  ...visibilityRules,
  ...fileRules,
  ...commentRules,
  ...folderRules,
  ...docsRules,
];

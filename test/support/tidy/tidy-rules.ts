/**
 * All house rules that can be checked automatically. Each carries trees that violate it, so the
 * test proves that it works.
 */
import { callRules } from './call-rules.ts';
import { cycleRules } from './cycle-rules.ts';
import { formRules } from './form-rules.ts';
import { importRules } from './import-rules.ts';
import { pageRules } from './page-rules.ts';
import { proseRules } from './prose-rules.ts';
import { roomRules } from './room-rules.ts';
import type { Rule } from './source.ts';
import { visibilityRules } from './visibility-rules.ts';
import { wordRules } from './word-rules.ts';

export const tidyRules: Rule[] = [
  ...importRules,
  ...cycleRules,
  ...proseRules,
  ...callRules,
  ...visibilityRules,
  ...formRules,
  ...wordRules,
  ...roomRules,
  ...pageRules,
];

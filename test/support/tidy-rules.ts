/** The house rules that a machine can check; each knows trees that break it, so that the test shows that it bites. */
import { callRules } from './tidy/call-rules.ts';
import { cycleRules } from './tidy/cycle-rules.ts';
import { formRules } from './tidy/form-rules.ts';
import { importRules } from './tidy/import-rules.ts';
import type { Rule } from './tidy/source.ts';

export const tidyRules: Rule[] = [...importRules, ...cycleRules, ...callRules, ...formRules];

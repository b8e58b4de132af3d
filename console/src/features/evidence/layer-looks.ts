/** Icon, tone and meaning of each evidence layer. */

import type { EvidenceLayer } from '../../../../src/contract/evidence/evidence.ts';
import {
  IconCloud,
  IconDatabase,
  IconGavel,
  IconPlugConnected,
  IconRoute,
  IconServer2,
  IconUser,
  IconWorld,
} from '../../ui/icons.generated.ts';
import type { StatusIcon } from '../../ui/status/status-looks.ts';
import type { Tone } from '../../ui/theme.ts';

export const layerLooks: Record<EvidenceLayer, { icon: StatusIcon; tone: Tone; means: string }> = {
  node: { icon: IconServer2, tone: 'ok', means: 'Reported by the machine' },
  provider: { icon: IconCloud, tone: 'busy', means: 'Reported by the driver and its provider' },
  api: { icon: IconWorld, tone: 'idle', means: 'Requests to the API' },
  workflow: { icon: IconRoute, tone: 'leaving', means: 'Steps of operations' },
  rule: { icon: IconGavel, tone: 'held', means: 'Decisions of rules' },
  operator: { icon: IconUser, tone: 'warn', means: 'Actions of people' },
  store: { icon: IconDatabase, tone: 'off', means: 'Reported by the database' },
  transport: { icon: IconPlugConnected, tone: 'off', means: 'Network failures' },
};

export const layerNames = Object.keys(layerLooks) as EvidenceLayer[];

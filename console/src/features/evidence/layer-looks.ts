/** Icon, tone and meaning of each evidence layer. */
import {
  IconCloud,
  IconDatabase,
  IconGavel,
  IconPlugConnected,
  IconRoute,
  IconServer2,
  IconUser,
  IconWorld,
} from '@tabler/icons-react';
import type { EvidenceLayer } from '../../../../src/contract/evidence/evidence.ts';
import type { StatusIcon } from '../../ui/status/status-looks.ts';
import type { Tone } from '../../ui/theme.ts';

export const layerLooks: Record<EvidenceLayer, { icon: StatusIcon; tone: Tone; means: string }> = {
  node: { icon: IconServer2, tone: 'ok', means: 'What the machine said' },
  provider: { icon: IconCloud, tone: 'busy', means: 'What the driver and its provider said' },
  api: { icon: IconWorld, tone: 'idle', means: 'What was asked for' },
  workflow: { icon: IconRoute, tone: 'leaving', means: 'What an operation did' },
  rule: { icon: IconGavel, tone: 'held', means: 'What a rule decided' },
  operator: { icon: IconUser, tone: 'warn', means: 'What a person did' },
  store: { icon: IconDatabase, tone: 'off', means: 'What the database said' },
  transport: { icon: IconPlugConnected, tone: 'off', means: 'What the network did' },
};

export const layerNames = Object.keys(layerLooks) as EvidenceLayer[];

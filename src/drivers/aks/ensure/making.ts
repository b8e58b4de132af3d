/** The arguments of every step that creates a cluster. */
import type { EnsureTarget } from '../../driver.ts';
import type { AksHost } from '../aks-host.ts';
import type { Azure } from '../azure/azure.ts';
import type { Place } from '../place.ts';
import type { AksSpec } from '../spec.ts';

export interface Making {
  host: AksHost;
  target: EnsureTarget;
  spec: AksSpec;
  azure: Azure;
  place: Place;
}

/** The version that the agent announces: the package's. */
import manifest from '../../package.json' with { type: 'json' };

export const agentVersion = `slipway-agent/${manifest.version}`;

/** The version that the agent reports: that of the package. */
import manifest from '../../package.json' with { type: 'json' };

export const agentVersion = `slipway-agent/${manifest.version}`;

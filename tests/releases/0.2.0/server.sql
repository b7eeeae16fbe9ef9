BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE definitions (
	name TEXT NOT NULL, 
	revision INTEGER NOT NULL, 
	template TEXT NOT NULL, 
	body TEXT NOT NULL, 
	is_current INTEGER NOT NULL, 
	created TEXT NOT NULL, 
	author TEXT NOT NULL, 
	PRIMARY KEY (name, revision)
)
 STRICT

;
INSERT INTO "definitions" VALUES('countdown',1,'countdown-task','{"name":"countdown","task_template_name":"countdown-task","package":null,"user_values_description":"process:\n  train:\n    number: (Required:integer) Where to start\n","user_values_example":"taskDef: countdown\nprocess:\n  train:\n    number: 5\n","system_values":"image:\n  repository: registry.example.com/busybox\n  tag: ''1''\n","creator":"admin","description":"","application":"","append_uuid":false,"project":null}',1,'2026-11-27T02:30:50.128525Z','admin');
CREATE TABLE deliveries (
	id TEXT NOT NULL, 
	release TEXT NOT NULL, 
	endpoint INTEGER NOT NULL, 
	sequence INTEGER NOT NULL, 
	status TEXT NOT NULL, 
	url TEXT NOT NULL, 
	host TEXT NOT NULL, 
	body TEXT NOT NULL, 
	secrets BLOB NOT NULL, 
	state TEXT NOT NULL, 
	attempts INTEGER NOT NULL, 
	code INTEGER, 
	error TEXT, 
	created TEXT NOT NULL, 
	last_try TEXT, 
	next_try TEXT, 
	project TEXT DEFAULT 'default' NOT NULL, 
	PRIMARY KEY (id)
)
 STRICT

;
CREATE TABLE job_events (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	release TEXT NOT NULL, 
	sequence INTEGER NOT NULL, 
	status TEXT NOT NULL, 
	reason TEXT, 
	message TEXT, 
	actor TEXT, 
	time TEXT NOT NULL, 
	UNIQUE (release, sequence), 
	FOREIGN KEY(release) REFERENCES jobs (release) ON DELETE CASCADE
)
 STRICT

;
INSERT INTO "job_events" VALUES(1,'countdown-60d4c9',1,'pending','Created',NULL,'admin','2026-11-27T02:30:50.314031Z');
CREATE TABLE jobs (
	release TEXT NOT NULL, 
	definition TEXT NOT NULL, 
	definition_revision INTEGER NOT NULL, 
	template TEXT NOT NULL, 
	template_revision INTEGER NOT NULL, 
	application TEXT NOT NULL, 
	creator TEXT NOT NULL, 
	namespace TEXT NOT NULL, 
	kind TEXT NOT NULL, 
	filled TEXT NOT NULL, 
	secrets BLOB NOT NULL, 
	manifests TEXT NOT NULL, 
	goal TEXT NOT NULL, 
	applied INTEGER NOT NULL, 
	status TEXT NOT NULL, 
	reason TEXT, 
	message TEXT, 
	hint TEXT, 
	pods TEXT NOT NULL, 
	findings TEXT NOT NULL, 
	created TEXT NOT NULL, 
	started TEXT, 
	ended TEXT, 
	project TEXT DEFAULT 'default' NOT NULL, 
	gpus INTEGER DEFAULT '0' NOT NULL, 
	attempts INTEGER, 
	owner TEXT DEFAULT '' NOT NULL, 
	requester TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (release), 
	FOREIGN KEY(definition, definition_revision) REFERENCES definitions (name, revision), 
	FOREIGN KEY(template, template_revision) REFERENCES templates (name, revision)
)
 STRICT

;
INSERT INTO "jobs" VALUES('countdown-60d4c9','countdown',1,'countdown-task',1,'','admin','tests','Job','{"taskDef":"countdown","process":{"train":{"number":3}}}',X'76ABFFD8E9AD1923D2085707CC2AAA2E31F6FFA3A72A0909A8EF006F975A','[{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"countdown-60d4c9","labels":{"mltask":"mltask","taskDef":"countdown","release":"countdown-60d4c9","application":"countdown","creator":"admin","app.kubernetes.io/managed-by":"mlpack","mlpack.dev/server":"default","mlpack.dev/job":"countdown-60d4c9","mlpack.dev/project":"default"}},"spec":{"backoffLimit":0,"template":{"metadata":{"labels":{"mltask":"mltask","release":"countdown-60d4c9","app.kubernetes.io/managed-by":"mlpack","mlpack.dev/server":"default","mlpack.dev/job":"countdown-60d4c9","mlpack.dev/project":"default"}},"spec":{"restartPolicy":"Never","containers":[{"name":"counter","image":"registry.example.com/busybox:1","imagePullPolicy":"IfNotPresent","command":["sh","-c","n=$NUMBER; while [ \"$n\" -gt 0 ]; do echo \"$n\"; n=$((n - 1)); done"],"env":[{"name":"NUMBER","value":"3"}],"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}],"automountServiceAccountToken":false,"securityContext":{"runAsNonRoot":true,"runAsUser":1000,"runAsGroup":1000,"fsGroup":1000,"seccompProfile":{"type":"RuntimeDefault"}}}}}}]','run',0,'pending',NULL,NULL,NULL,'[]','[]','2026-11-27T02:30:50.310801Z',NULL,NULL,'default',0,NULL,'token:admin','token:admin');
CREATE TABLE logs (
	release TEXT NOT NULL, 
	pod TEXT NOT NULL, 
	container TEXT NOT NULL, 
	instance TEXT NOT NULL, 
	place INTEGER NOT NULL, 
	size INTEGER NOT NULL, 
	content BLOB NOT NULL, 
	time TEXT NOT NULL, 
	PRIMARY KEY (release, pod, container, instance), 
	FOREIGN KEY(release) REFERENCES jobs (release) ON DELETE CASCADE
)
 STRICT

;
CREATE TABLE meta (
	"key" TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY ("key")
)
 STRICT

;
CREATE TABLE metrics (
	release TEXT NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (release), 
	FOREIGN KEY(release) REFERENCES jobs (release) ON DELETE CASCADE
)
 STRICT

;
CREATE TABLE requests (
	caller TEXT NOT NULL, 
	path TEXT NOT NULL, 
	"key" TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	status INTEGER, 
	body TEXT, 
	location TEXT, 
	created TEXT NOT NULL, 
	replica INTEGER DEFAULT '0' NOT NULL, 
	PRIMARY KEY (caller, path, "key")
)
 STRICT

;
CREATE TABLE sessions (
	id TEXT NOT NULL, 
	content BLOB NOT NULL, 
	ends TEXT NOT NULL, 
	owner TEXT DEFAULT '' NOT NULL, 
	PRIMARY KEY (id)
)
 STRICT

;
CREATE TABLE templates (
	name TEXT NOT NULL, 
	revision INTEGER NOT NULL, 
	body TEXT NOT NULL, 
	is_current INTEGER NOT NULL, 
	created TEXT NOT NULL, 
	author TEXT NOT NULL, 
	PRIMARY KEY (name, revision)
)
 STRICT

;
INSERT INTO "templates" VALUES('countdown-task',1,'{"name":"countdown-task","template":"{# Counts down from process.train.number. The number is an environment variable, so the shell never parses it. #}\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: \"{{ global.release }}\"\n  labels:\n    mltask: mltask\n    taskDef: \"{{ global.taskDef }}\"\n    release: \"{{ global.release }}\"\n    application: \"{{ global.application }}\"\n    creator: \"{{ global.creator }}\"\nspec:\n  backoffLimit: 0\n  template:\n    metadata:\n      labels:\n        mltask: mltask\n        release: \"{{ global.release }}\"\n    spec:\n      restartPolicy: Never\n      containers:\n        - name: counter\n          image: \"{{ image.repository }}:{{ image.tag }}\"\n          imagePullPolicy: \"{{ image.pullPolicy or ''IfNotPresent'' }}\"\n          command: [\"sh\", \"-c\", ''n=$NUMBER; while [ \"$n\" -gt 0 ]; do echo \"$n\"; n=$((n - 1)); done'']\n          env:\n            - name: NUMBER\n              value: \"{{ process.train.number | int }}\"\n","description":"Counts down from process.train.number: to try a server with.","deprecated":false}',1,'2026-11-27T02:30:49.879965Z','mlpack');
INSERT INTO "templates" VALUES('non-distributed-task',1,'{"name":"non-distributed-task","template":"{# One container on one node with CPUs: configs as JSON in its environment, a claim for what it writes.\n   A definition''s system_values may set storage.className, storage.accessMode, nodes.label and nodes.value. #}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: \"{{ global.release }}\"\n  labels:\n    mltask: mltask\ndata:\n  globalCfg: \"{{ configs.global }}\"\n  datasetCfg: \"{{ configs.dataset }}\"\n  processCfg: \"{{ configs.process }}\"\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: \"{{ global.release }}\"\n  labels:\n    mltask: mltask\nspec:\n{% if storage is defined and storage.className %}\n  storageClassName: \"{{ storage.className }}\"\n{% endif %}\n  accessModes: [\"{{ (storage | default({})).accessMode or ''ReadWriteOnce'' }}\"]\n  resources:\n    requests:\n      storage: \"{{ (resources | default({})).storage or ''10Gi'' }}\"\n---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: \"{{ global.release }}\"\n  labels:\n    mltask: mltask\n    taskDef: \"{{ global.taskDef }}\"\n    release: \"{{ global.release }}\"\n    application: \"{{ global.application }}\"\n    creator: \"{{ global.creator }}\"\nspec:\n  backoffLimit: 0\n  template:\n    metadata:\n      labels:\n        mltask: mltask\n        taskDef: \"{{ global.taskDef }}\"\n        release: \"{{ global.release }}\"\n        application: \"{{ global.application }}\"\n    spec:\n      restartPolicy: Never\n{% if nodes is defined and nodes.label %}\n      affinity:\n        nodeAffinity:\n          requiredDuringSchedulingIgnoredDuringExecution:\n            nodeSelectorTerms:\n              - matchExpressions:\n                  - {key: \"{{ nodes.label }}\", operator: In, values: [\"{{ nodes.value or ''true'' }}\"]}\n{% endif %}\n      containers:\n        - name: \"{{ global.release }}\"\n          image: \"{{ image.repository }}:{{ image.tag }}\"\n          imagePullPolicy: \"{{ image.pullPolicy or ''Always'' }}\"\n          tty: true\n          env:\n            - name: STORAGE\n              value: \"/mount/{{ global.release }}/\"\n{% for variable, key in [(\"GLOBALCFG\", \"globalCfg\"), (\"DATASETCFG\", \"datasetCfg\"), (\"PROCESSCFG\", \"processCfg\")] %}\n            - name: {{ variable }}\n              valueFrom:\n                configMapKeyRef:\n                  name: \"{{ global.release }}\"\n                  key: {{ key }}\n{% endfor %}\n          volumeMounts:\n            - name: storage\n              mountPath: \"/mount/{{ global.release }}/\"\n{% if resources is defined %}\n          resources:\n            limits:\n              cpu: \"{{ resources.cpu or ''500m'' }}\"\n              memory: \"{{ resources.memory or ''512Mi'' }}\"\n{% endif %}\n      volumes:\n        - name: storage\n          persistentVolumeClaim:\n            claimName: \"{{ global.release }}\"\n","description":"One container on one node, with its configs as JSON and a claim for what it writes.","deprecated":false}',1,'2026-11-27T02:30:49.883667Z','mlpack');
INSERT INTO "templates" VALUES('single-gpu-task',1,'{"name":"single-gpu-task","template":"{# One container with one GPU: configs as JSON in its environment, a claim for what it writes.\n   A definition''s system_values may set storage.className, storage.accessMode, nodes.label and nodes.value. #}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: \"{{ global.release }}\"\n  labels:\n    mltask: mltask\ndata:\n  globalCfg: \"{{ configs.global }}\"\n  datasetCfg: \"{{ configs.dataset }}\"\n  processCfg: \"{{ configs.process }}\"\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: \"{{ global.release }}\"\n  labels:\n    mltask: mltask\nspec:\n{% if storage is defined and storage.className %}\n  storageClassName: \"{{ storage.className }}\"\n{% endif %}\n  accessModes: [\"{{ (storage | default({})).accessMode or ''ReadWriteOnce'' }}\"]\n  resources:\n    requests:\n      storage: \"{{ (resources | default({})).storage or ''10Gi'' }}\"\n---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: \"{{ global.release }}\"\n  labels:\n    mltask: mltask\n    taskDef: \"{{ global.taskDef }}\"\n    release: \"{{ global.release }}\"\n    application: \"{{ global.application }}\"\n    creator: \"{{ global.creator }}\"\nspec:\n  backoffLimit: 0\n  template:\n    metadata:\n      labels:\n        mltask: mltask\n        taskDef: \"{{ global.taskDef }}\"\n        release: \"{{ global.release }}\"\n        application: \"{{ global.application }}\"\n    spec:\n      restartPolicy: Never\n{% if nodes is defined and nodes.label %}\n      affinity:\n        nodeAffinity:\n          requiredDuringSchedulingIgnoredDuringExecution:\n            nodeSelectorTerms:\n              - matchExpressions:\n                  - {key: \"{{ nodes.label }}\", operator: In, values: [\"{{ nodes.value or ''true'' }}\"]}\n{% endif %}\n      containers:\n        - name: \"{{ global.release }}\"\n          image: \"{{ image.repository }}:{{ image.tag }}\"\n          imagePullPolicy: \"{{ image.pullPolicy or ''Always'' }}\"\n          tty: true\n          env:\n            - name: STORAGE\n              value: \"/mount/{{ global.release }}/\"\n{% for variable, key in [(\"GLOBALCFG\", \"globalCfg\"), (\"DATASETCFG\", \"datasetCfg\"), (\"PROCESSCFG\", \"processCfg\")] %}\n            - name: {{ variable }}\n              valueFrom:\n                configMapKeyRef:\n                  name: \"{{ global.release }}\"\n                  key: {{ key }}\n{% endfor %}\n          volumeMounts:\n            - name: storage\n              mountPath: \"/mount/{{ global.release }}/\"\n          resources:\n            limits:\n              nvidia.com/gpu: 1\n      volumes:\n        - name: storage\n          persistentVolumeClaim:\n            claimName: \"{{ global.release }}\"\n","description":"The same with one GPU.","deprecated":false}',1,'2026-11-27T02:30:49.891409Z','mlpack');
CREATE TABLE tokens (
	id TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	name TEXT NOT NULL, 
	role TEXT NOT NULL, 
	created TEXT NOT NULL, 
	expires TEXT, 
	last_used TEXT, 
	project TEXT, 
	PRIMARY KEY (id), 
	UNIQUE (digest)
)
 STRICT

;
INSERT INTO "tokens" VALUES('3570b1e15401','62173e1662309dc7ebfa923fab3012913db7519a6072aa0eb7806a919ef74d15','viewer','viewer','2026-11-27T02:30:49.765214Z',NULL,NULL,NULL);
INSERT INTO "tokens" VALUES('870fa7ca2ef0','f38f49079de6da02654e394dfb85e08a0168b449093e5e41f89d5847cc90d3a9','user','user','2026-11-27T02:30:49.766960Z',NULL,NULL,NULL);
INSERT INTO "tokens" VALUES('e6b313e4ae0b','c69843be8d2c0fbcbcd41e857fbbcfbd50bb8f440e0745073cefcd42dbfb49e7','developer','developer','2026-11-27T02:30:49.767697Z',NULL,NULL,NULL);
INSERT INTO "tokens" VALUES('3fcfdce4c9cc','7ba9c093c16760e05504fb0cf2b4a162144495d757f6e7d59f991d14aaf49232','admin','admin','2026-11-27T02:30:49.768235Z',NULL,'2026-11-27T02:30:49.903392Z',NULL);
CREATE INDEX sessions_by_owner ON sessions (owner, ends);
CREATE INDEX definitions_by_template ON definitions (template);
CREATE INDEX deliveries_by_place ON deliveries (release, endpoint, sequence);
CREATE INDEX deliveries_by_time ON deliveries (state, next_try);
CREATE INDEX jobs_by_goal ON jobs (goal);
CREATE INDEX jobs_by_creator ON jobs (creator, created, release);
CREATE INDEX jobs_by_application ON jobs (application, created, release);
CREATE INDEX jobs_by_status ON jobs (status, created, release);
CREATE INDEX jobs_by_definition ON jobs (definition, created, release);
CREATE INDEX jobs_by_project ON jobs (project, created, release);
CREATE INDEX jobs_by_creation ON jobs (created, release);
CREATE INDEX logs_by_time ON logs (time);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('job_events',1);
COMMIT;

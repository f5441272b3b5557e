#define NOTSENT 16384
#define EXPAND 16
